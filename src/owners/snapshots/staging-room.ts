import { abortable } from '../../lib/abortable.ts'
import type { StagingId } from '../../core/snapshots/record.ts'

/** A pack that waits for room for a part. Its part is bounded by the quota at the moment when it takes the room. */
type Waiting = { readonly partBytes: number; takenBytes: number; readonly come: () => void }

export type StagingRoomOptions = {
  readonly quotaBytes: () => number
  /**
   * Called during a change, when a pack waits for room or the quota became smaller; see {@link
   * StagingRoom.lackingBytes}.
   */
  readonly onLack: () => void
}

/**
 * Counts the quota of staging: the packed parts of all snapshots, and the parts that are being made. A pack that finds
 * no room waits for it, in order of arrival.
 */
export class StagingRoom {
  readonly #quotaBytes: () => number
  readonly #onLack: () => void
  readonly #staged = new Map<StagingId, number>()
  #usedBytes = 0
  #waiting: Waiting[] = []

  constructor({ quotaBytes, onLack }: StagingRoomOptions) {
    this.#quotaBytes = quotaBytes
    this.#onLack = onLack
  }

  /** Returns the bytes that must be freed so that the first waiting pack has room, and the quota is kept. */
  lackingBytes(): number {
    const bytes = this.#bytesOf(this.#waiting[0]?.partBytes ?? 0)
    return Math.max(0, this.#usedBytes + bytes - this.#quotaBytes())
  }

  /** Returns the bytes that count as staged but are no longer on record: they will be freed soon. */
  goingBytes(recordedBytes: (stagingId: StagingId) => number): number {
    let bytes = 0
    for (const [stagingId, counted] of this.#staged) bytes += Math.max(0, counted - recordedBytes(stagingId))
    return bytes
  }

  /** Sets the bytes that a snapshot has in staging. */
  set(stagingId: StagingId, bytes: number): void {
    this.#usedBytes += bytes - (this.#staged.get(stagingId) ?? 0)
    if (bytes === 0) this.#staged.delete(stagingId)
    else this.#staged.set(stagingId, bytes)
    this.#admitOrAsk()
  }

  /** Returns the snapshots that have something in staging. */
  counted(): readonly StagingId[] {
    return [...this.#staged.keys()]
  }

  /** Takes room for a part if there is some and no pack waits for it. Returns the function that gives it back. */
  takeNow(partBytes: number): (() => void) | undefined {
    const bytes = this.#bytesOf(partBytes)
    if (this.#waiting.length > 0 || this.#usedBytes + bytes > this.#quotaBytes()) return undefined
    this.#usedBytes += bytes
    return () => this.#give(bytes)
  }

  /**
   * Resolves when there is room for a part, with the function that gives it back. Rejects with the signal's reason on
   * abort.
   */
  async take(partBytes: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const { promise, resolve } = Promise.withResolvers<void>()
    const waiting: Waiting = { partBytes, takenBytes: 0, come: resolve }
    this.#waiting.push(waiting)
    this.#admitOrAsk()
    const give = (): void => this.#give(waiting.takenBytes)
    try {
      await abortable(promise, signal)
    } catch (error) {
      if (this.#waiting.includes(waiting)) this.#waiting = this.#waiting.filter((other) => other !== waiting)
      else give()
      this.#admitOrAsk()
      throw error
    }
    return give
  }

  /**
   * Admits the packs that have room now, as after a change of the quota. It asks for no room, because the sweep that
   * calls it makes some.
   */
  admit(): void {
    while (this.lackingBytes() === 0) {
      const next = this.#waiting.shift()
      if (next === undefined) return
      next.takenBytes = this.#bytesOf(next.partBytes)
      this.#usedBytes += next.takenBytes
      next.come()
    }
  }

  /** Bounds a part by the quota, so that it does not wait forever for more than the quota has. */
  #bytesOf(partBytes: number): number {
    return Math.min(partBytes, this.#quotaBytes())
  }

  #give(bytes: number): void {
    this.#usedBytes -= bytes
    this.#admitOrAsk()
  }

  /** Admits the packs that have room, and asks for room if that is not enough. */
  #admitOrAsk(): void {
    this.admit()
    if (this.lackingBytes() > 0) this.#onLack()
  }
}
