import { limits } from '../../config/limits.ts'
import { CourseEnd, done, failed } from './outcome.ts'
import type { PackedPart, PackPoint, PackWait } from '../../core/snapshots/record.ts'
import type { Task } from './context.ts'
import type { Outcome } from './outcome.ts'
import { MIB, mibOf } from '../../lib/byte-units.ts'
import { warnOfFault } from '../../log/log.ts'

/** Holds what a pack needs for a part: a place among the packs, and room in staging. */
class PartTurn {
  readonly #task: Task
  readonly #partBytes: number
  readonly #ended = new AbortController()
  readonly #signal: AbortSignal
  #givePlace: (() => void) | undefined
  #giveRoom: (() => void) | undefined

  constructor(task: Task, partBytes: number) {
    this.#task = task
    this.#partBytes = partBytes
    this.#signal = AbortSignal.any([task.signal, this.#ended.signal])
  }

  /** Resolves when there are both. While there is no room, the place goes to others, which may not need room. */
  async take(): Promise<void> {
    const { room } = this.#task
    await this.#takePlace()
    this.#giveRoom = room.takeNow(this.#partBytes)
    if (this.#giveRoom === undefined) {
      this.#returnPlace()
      noteWait(this.#task, 'room in staging')
      this.#giveRoom = this.#held(await room.take(this.#partBytes, this.#signal))
      await this.#takePlace()
    }
    noteWait(this.#task, undefined)
  }

  async #takePlace(): Promise<void> {
    if (this.#givePlace !== undefined) return
    const { packs } = this.#task
    if (!packs.isFree) noteWait(this.#task, OTHERS)
    this.#givePlace = this.#held(await packs.take(this.#signal))
  }

  /** Gives the room back. The part is on record now and counts as packed. */
  returnRoom(): void {
    this.#giveRoom?.()
    this.#giveRoom = undefined
  }

  /** Gives everything back, including what still waits. */
  end(): void {
    this.#ended.abort(new Error('the pack has ended'))
    this.returnRoom()
    this.#returnPlace()
  }

  #returnPlace(): void {
    this.#givePlace?.()
    this.#givePlace = undefined
  }

  /** Gives a place or room back at once if it came just as the pack ended. */
  #held(give: () => void): () => void {
    if (this.#signal.aborted) give()
    this.#signal.throwIfAborted()
    return give
  }
}

/**
 * Packs the clone into parts, starting from the packed point. Waits for its turn, and after each part for room for the
 * next.
 */
export async function pack(task: Task): Promise<Outcome> {
  if (!task.openPacks.isFree) noteWait(task, OTHERS)
  return await task.openPacks.run(() => packInTurn(task), task.signal)
}

const OTHERS = 'the packing of other snapshots'

/** Shows what packing waits for. It is logged if no part of the snapshot can be sent meanwhile. */
function noteWait({ entry, log }: Task, waitingFor: PackWait | undefined): void {
  if (entry.record.waitingFor === waitingFor) return
  entry.advance({ waitingFor: waitingFor ?? null })
  const isSending = entry.unsent.some(({ number }) => entry.urls.parts.has(number))
  if (waitingFor !== undefined && !isSending) log.info({ waiting_for: waitingFor }, 'packing delayed')
}

async function packInTurn(task: Task): Promise<Outcome> {
  const turn = new PartTurn(task, task.entry.record.partMib * MIB)
  try {
    await turn.take()
    await packNow(task, turn)
  } finally {
    turn.end()
  }
  await removeClone(task)
  return done
}

async function packNow(task: Task, turn: PartTurn): Promise<void> {
  const { entry, host, store, signal, log } = task
  const { partMib, packed: from, stagingId } = entry.record
  const partBytes = partMib * MIB
  const beganMs = host.clock.monotonicMs()
  // The capture must be on the disk before anything is made from it.
  await store.flushed()
  const onPart = async (part: PackedPart, next: PackPoint): Promise<void> => {
    signal.throwIfAborted()
    if (part.number > limits.partsMax) throw new CourseEnd(tooManyParts(partMib))
    entry.addPart(part, next)
    turn.returnRoom()
    await store.flushed()
    task.look()
    if (next.imageBytes < (entry.record.capture?.imageBytes ?? 0)) await turn.take()
  }
  const job = { stagingId, from, parts: entry.parts.length, partBytes, onPart }
  const { storedBytes, sha256 } = await host.staging.pack(job, signal)
  signal.throwIfAborted()
  entry.advance({ stage: 'sending', sha256 })
  const elapsedMs = Math.round(host.clock.monotonicMs() - beganMs)
  log.info({ stored_mib: mibOf(storedBytes), sha256, elapsed_ms: elapsedMs }, 'snapshot packed')
  // The clone is removed next, and nothing could be packed again. So the record must be on the disk first.
  await store.flushed()
}

const tooManyParts = (partMib: number): Outcome =>
  failed('upload_too_many_parts', `more than ${limits.partsMax} parts of ${partMib} MiB: choose larger ones`)

/** Removes the clone. If that fails, the clone is removed with the rest of the staging. */
async function removeClone({ entry, host, log }: Task): Promise<void> {
  try {
    await host.staging.removeClone(entry.stagingId)
  } catch (error) {
    warnOfFault(log, error, 'clone of a packed snapshot not removed yet')
  }
}
