import type { Sha256 } from '../core/ids.ts'
import type { ArrivalId, SourceRefusal } from '../core/migration/departure.ts'
import type { Frame } from '../core/migration/frames.ts'
import type { MigrationId } from '../core/migration/offer.ts'
import type { HandOver, Manifest } from '../core/vm/manifest.ts'
import type { Result } from '../lib/result.ts'
import type { MovedConsole } from './consoles.ts'
import type { Round } from './disk-rounds.ts'
import type { HeldPacket } from './traffic.ts'

/** A migration, and this host's attempt to take its VM. */
export type MoveRef = { readonly migrationId: MigrationId; readonly arrival: ArrivalId }

/**
 * The answer of a source. Its destination gets every other failure thrown: HostFault `source_unreachable` or
 * `source_refused`.
 */
export type Answered<T> = Promise<Result<T, SourceRefusal>>

/** Hosts that offer VMs to this one. */
export interface SourceHosts {
  /** @param origin the coordination API of a host: `https://10.0.0.1:9001` */
  at(origin: string): SourceHost
}

/**
 * A host that offers a VM to this one. Each request is safe to repeat, and gets the same answer at any later time.
 * Every method throws the signal's reason on abort.
 */
export interface SourceHost {
  manifest(id: MigrationId, signal: AbortSignal): Answered<Manifest>
  /** Ensures a round of the disk; see DiskRounds. */
  ensureRound(move: MoveRef, number: number, signal: AbortSignal): Answered<Round>
  /**
   * Reads a round, or the memory of the saved guest. A cut stream continues by itself, or throws StreamRefused. The
   * frames count only when all of them were read. The bytes of a frame are valid until the next one is requested.
   */
  roundFrames(
    move: MoveRef,
    round: { readonly number: number; readonly sizeBytes: number },
    signal: AbortSignal,
  ): Answered<AsyncIterable<Frame>>
  memoryFrames(move: MoveRef, lengthBytes: number, signal: AbortSignal): Answered<AsyncIterable<Frame>>
  /** Has the guest saved, or stopped. Waits for that, but not for long. */
  handOver(move: MoveRef, signal: AbortSignal): Answered<HandOver>
  /** Reads the kernel or the initrd of the VM. */
  image(id: MigrationId, sha256: Sha256, signal: AbortSignal): Answered<AsyncIterable<Uint8Array>>
  /** Undefined if the VM has no console yet. */
  console(move: MoveRef, signal: AbortSignal): Answered<MovedConsole | undefined>
  /** Asks for the guest. Once this is ok, the source never runs it again. */
  release(move: MoveRef, lastRound: number, signal: AbortSignal): Answered<void>
  /**
   * Gives the attempt up: the guest continues at the source. Refused with `released` if it was released to this
   * attempt.
   */
  abort(move: MoveRef, signal: AbortSignal): Answered<void>
  /**
   * Reads the packets that the source holds, and forgets those up to `after`. Waits for the next one if there is none.
   */
  heldPackets(
    move: MoveRef,
    from: { readonly after: number; readonly waitMs: number },
    signal: AbortSignal,
  ): Answered<readonly HeldPacket[]>
}
