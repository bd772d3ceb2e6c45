import type { ArrivalId } from '../core/migration/departure.ts'
import type { Sha256, UserId, VmId } from '../core/ids.ts'
import type { VmMark } from '../core/world/world.ts'
import type { IncomingFile } from './incoming-file.ts'

/** A round of a VM's disk, for the destination that copies it. */
export type RoundRef = {
  readonly id: VmId
  readonly arrival: ArrivalId
  /** From 1. */
  readonly number: number
}

export type Round = {
  /** The size of the disk. It may be larger than in the round before. */
  readonly sizeBytes: number
  /** Bytes of data in the round: what was written since the round before; in round 1, all data of the disk. */
  readonly changedBytes: number
}

/**
 * Rounds of a disk that leaves this host, at the source. A round is a clone of the disk, and is sent as what differs
 * from the round before. Every method throws HostFault, and the signal's reason on abort.
 */
export interface DiskRounds {
  /**
   * Ensures a round. The same number again gives the same round, and the next number a new one: the disk as it is now.
   * It is on the host's disk when this resolves. The round before is kept, and older ones are removed. Round 1 removes
   * the rounds of every other arrival.
   *
   * `round_lost` for any other number, and if the round before is gone; `migration_unsupported` if the file system
   * cannot share blocks; `disk_missing` if there is no disk.
   */
  ensureRound(round: RoundRef, signal: AbortSignal): Promise<Round>
  /**
   * Reads a round as frames and their end (core/migration/frames.ts). `from` is 0, or the end of a frame after which an
   * earlier stream was cut. Each chunk has whole frames, and is valid until the next one is requested. `round_lost` if
   * the round is gone, or the one before it.
   */
  frames(round: RoundRef, from: number, signal: AbortSignal): AsyncIterable<Uint8Array>
  /** Removes all rounds of a VM; safe to repeat. The deletion of its disk does that too. */
  remove(id: VmId): Promise<void>
  /** Lists the VMs that have rounds. Fails if the pool cannot be read. */
  list(): Promise<readonly VmId[]>
}

/** The VM whose disk an incoming one becomes. */
export type IncomingOwner = {
  readonly id: VmId
  readonly userId: UserId
  /** Written beside the disk before the disk exists. */
  readonly mark: VmMark
  /** The image that the disk was once made from, if the source knows it. */
  readonly rootfsSha256?: Sha256
  /** The rebuild that made it at its source; absent: the creation did. */
  readonly rebuild?: number
}

/** A round that is to be written: its number from 1, and the size of the disk. */
export type IncomingRound = Pick<RoundRef, 'number'> & Pick<Round, 'sizeBytes'>

/** Disks that come from another host, at the destination. Every method throws HostFault, and the signal's reason. */
export interface IncomingDisks {
  /**
   * Opens the unfinished disk of an arrival for a round. The first round makes it if there is none: without data, which
   * reads as zeros. In a later round an absent disk is `round_lost`, because that round has only what was written since
   * the one before. It grows to this size and never shrinks: `round_lost` if it is larger.
   * One call at a time has it open.
   */
  open(arrival: ArrivalId, round: IncomingRound): Promise<IncomingFile>
  /**
   * Makes the flushed and closed disk the disk of a VM, as `ensureDisk` of the port Storage makes one. Safe to repeat,
   * also when it was done. `disk_foreign` if the VM has another disk; `round_lost` if there is neither.
   */
  publish(arrival: ArrivalId, owner: IncomingOwner, signal: AbortSignal): Promise<void>
  /** Removes an unfinished disk; safe to repeat. Leaves a disk that was published. */
  remove(arrival: ArrivalId): Promise<void>
  /** Lists the arrivals that have an unfinished disk. Fails if the pool cannot be read. */
  list(): Promise<readonly ArrivalId[]>
}
