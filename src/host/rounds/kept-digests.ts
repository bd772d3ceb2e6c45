import { limits } from '../../config/limits.ts'
import { FrameWriter } from '../../core/migration/frames.ts'
import { streamChecks } from './stream-checks.ts'

/** A writer that has written the frames up to an offset. */
type State = { readonly end: number; readonly writer: FrameWriter }

/**
 * States of the digest of one file's stream. A stream that continues behind one of them need not read what comes before
 * it again. They are lost with the daemon; then the file is read from its beginning, and sent from where the stream
 * continues.
 */
export class KeptDigests {
  #states: State[] = []

  /** Returns a writer for a stream that continues at an offset, and the offset from which on it must be given frames. */
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
