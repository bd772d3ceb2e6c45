import { HostFault } from '../../src/core/errors.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { ArrivalId } from '../../src/core/migration/departure.ts'
import type { Frame } from '../../src/core/migration/frames.ts'
import { assert } from '../../src/lib/assert.ts'
import type { IncomingDisks, IncomingOwner, IncomingRound } from '../../src/ports/disk-rounds.ts'
import type { IncomingFile } from '../../src/ports/incoming-file.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type IncomingMethod = keyof IncomingDisks | 'write' | 'flush'

/** The content now, and what of it outlives a loss of power. */
type Incoming = { content: Uint8Array; flushed: Uint8Array }

/** Disks that VMs have already. */
export type PublishedDisks = {
  readonly has: (id: VmId) => boolean
  /** Whether the disk was published here for this owner. */
  readonly isOf: (owner: IncomingOwner) => boolean
  readonly add: (owner: IncomingOwner, content: Uint8Array) => void
}

/** Incoming disks in memory. They outlive the daemon: the next one is given the same object. */
export class FakeIncomingDisks implements IncomingDisks {
  readonly #published: PublishedDisks
  readonly #incoming = new Map<ArrivalId, Incoming>()
  readonly #open = new Set<ArrivalId>()
  readonly #faults = new FaultSwitch<IncomingMethod>()
  #inSight = true

  constructor(published: PublishedDisks) {
    this.#published = published
  }

  failNext(method: IncomingMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** Lets the next call wait until the returned function is called, or until it is aborted. */
  holdNext(method: IncomingMethod): () => void {
    return this.#faults.holdNext(method)
  }

  /** Hides the pool, as an unmount does, or brings it back. */
  setInSight(inSight: boolean): void {
    this.#inSight = inSight
  }

  /** The daemon died: the next one has no disk open. */
  restart(): void {
    this.#open.clear()
  }

  /** Loses everything that was not flushed. The daemon died with it. */
  losePower(): void {
    this.restart()
    for (const disk of this.#incoming.values()) disk.content = Uint8Array.from(disk.flushed)
  }

  open(arrival: ArrivalId, { number, sizeBytes }: IncomingRound): Promise<IncomingFile> {
    return this.#faults.run('open', () => {
      this.#look()
      assert(!this.#open.has(arrival), 'an incoming disk is opened once')
      const found = this.#incoming.get(arrival)
      const disk = found ?? { content: new Uint8Array(), flushed: new Uint8Array() }
      if (number === 1) disk.content = new Uint8Array()
      if (disk.content.length > sizeBytes || (found === undefined && number > 1))
        throw new HostFault('round_lost', `opening the disk of arrival ${arrival}`)
      disk.content = grown(disk.content, sizeBytes)
      this.#incoming.set(arrival, disk)
      this.#open.add(arrival)
      return this.#opened(arrival, disk)
    })
  }

  #opened(arrival: ArrivalId, disk: Incoming): IncomingFile {
    let hasFailed = false
    const run = async (method: 'write' | 'flush', effect: () => void): Promise<void> => {
      if (hasFailed) throw new HostFault('storage_failed', `writing to the disk of arrival ${arrival}`)
      try {
        await this.#faults.run(method, effect)
      } catch (error) {
        hasFailed = true
        throw error
      }
    }
    return {
      write: async (frame) => {
        assert(frame.offset + frame.length <= disk.content.length, 'a frame lies within its file')
        await run('write', () => put(disk.content, frame))
      },
      flush: () => run('flush', () => void (disk.flushed = Uint8Array.from(disk.content))),
      close: async () => void this.#open.delete(arrival),
    }
  }

  publish(arrival: ArrivalId, owner: IncomingOwner, signal: AbortSignal): Promise<void> {
    const publish = (): void => {
      this.#look()
      assert(!this.#open.has(arrival), 'an incoming disk is closed before it is published')
      const doing = `making the disk of VM ${owner.id}`
      const disk = this.#incoming.get(arrival)
      if (this.#published.has(owner.id)) {
        if (disk !== undefined || !this.#published.isOf(owner)) throw new HostFault('disk_foreign', doing)
        return
      }
      if (disk === undefined) throw new HostFault('round_lost', doing)
      this.#published.add(owner, disk.content)
      this.#incoming.delete(arrival)
    }
    return this.#faults.run('publish', publish, signal)
  }

  remove(arrival: ArrivalId): Promise<void> {
    return this.#faults.run('remove', () => {
      this.#look()
      this.#incoming.delete(arrival)
    })
  }

  list(): Promise<readonly ArrivalId[]> {
    return this.#faults.run('list', () => {
      this.#look()
      return [...this.#incoming.keys()]
    })
  }

  #look(): void {
    if (!this.#inSight) throw new HostFault('storage_inspection_failed', 'looking for the storage pool')
  }
}

function grown(content: Uint8Array, sizeBytes: number): Uint8Array {
  if (content.length === sizeBytes) return content
  const larger = new Uint8Array(sizeBytes)
  larger.set(content)
  return larger
}

function put(content: Uint8Array, frame: Frame): void {
  if (frame.kind === 'hole') content.fill(0, frame.offset, frame.offset + frame.length)
  else content.set(frame.bytes, frame.offset)
}
