/** State that is kept of the streams of VMs, so that one which continues does not read everything again. */
import { limits } from '../../config/limits.ts'
import { FrameWriter } from '../../core/migration/frames.ts'
import { streamChecks } from './stream-checks.ts'
import type { VmId } from '../../core/ids.ts'

/** Something that is kept of one file of each VM, which is its present one. */
export class KeptOfVms<T> {
  readonly #make: () => T
  readonly #present = new Map<VmId, { readonly file: string; readonly kept: T }>()

  constructor(make: () => T) {
    this.#make = make
  }

  /** Returns what is kept of a file. @param file names it among all that the VM ever has */
  of(id: VmId, file: string): T {
    const found = this.#present.get(id)
    if (found?.file === file) return found.kept
    const kept = this.#make()
    this.#present.set(id, { file, kept })
    return kept
  }

  forget(id: VmId): void {
    this.#present.delete(id)
  }
}

/** A writer that has written the frames up to an offset. */
type State = { readonly end: number; readonly writer: FrameWriter }

/**
 * States of the digest of one file's stream. A stream that continues behind one of them need not read what comes before
 * it again. They are lost with the daemon; then the file is read from its beginning, and sent from where the stream
 * continues.
 */
export class KeptDigests {
  #states: State[] = []

  /**
   * Returns a writer for a stream that continues at an offset, and the offset from which on it must be given frames.
   */
  before(from: number): State {
    const found = this.#states.findLast(({ end }) => end <= from)
    if (found === undefined) return { end: 0, writer: new FrameWriter(streamChecks) }
    return { end: found.end, writer: found.writer.copy() }
  }

  /** Keeps the state at the end of a frame, now and then. */
  note(end: number, writer: FrameWriter): void {
    const last = this.#states.at(-1)?.end ?? 0
    if (end < last + limits.roundDigestEveryBytes) return
    this.#states = [...this.#states.slice(1 - limits.roundDigestsMax), { end, writer: writer.copy() }]
  }
}

/**
 * Stretches of a round without a change whose maps took many calls to read. A reader who comes later passes over them:
 * a destination takes a stream in which nothing is found for long for one that is cut.
 */
export class QuietStretches {
  readonly #known: { readonly from: number; to: number }[] = []

  /** Takes a stretch in which nothing has changed. */
  note(from: number, to: number): void {
    const index = this.#known.findIndex((one) => one.to >= from)
    const near = this.#known[index]
    if (near !== undefined && near.from <= from) near.to = Math.max(near.to, to)
    else if (this.#known.length < limits.quietStretchesMax)
      this.#known.splice(near === undefined ? this.#known.length : index, 0, { from, to })
  }

  /** Returns where the known stretch ends that has this offset; undefined if none has it. */
  endOf(offset: number): number | undefined {
    return this.#known.find(({ from, to }) => from <= offset && offset < to)?.to
  }
}
