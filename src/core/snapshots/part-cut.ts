import { assert } from '../../lib/assert.ts'
import type { PackedPart, PackPoint } from './record.ts'

/** A part without its digests. */
export type CutPart = Omit<PackedPart, 'md5' | 'sha256'>

/** Cuts the stored form, frame after frame, into parts of one size. */
export class PartCut {
  readonly #partBytes: number
  #parts = 0
  /** Image bytes of the frames that end in the part that is not complete yet. */
  #partImageBytes = 0
  #storedBytes = 0
  #imageBytes = 0

  constructor(partBytes: number) {
    assert(partBytes > 0, 'parts have bytes')
    this.#partBytes = partBytes
  }

  /** Returns the point after the last frame that was added. */
  get point(): PackPoint {
    return { imageBytes: this.#imageBytes, storedBytes: this.#storedBytes }
  }

  /** Returns the end of the part that is not complete yet. */
  get partEndBytes(): number {
    return (this.#parts + 1) * this.#partBytes
  }

  /** Adds a frame, or the table after the last frame, with no image bytes. Returns the parts that it completes. */
  add(storedBytes: number, imageBytes: number): readonly CutPart[] {
    const whole: CutPart[] = []
    this.#storedBytes += storedBytes
    this.#imageBytes += imageBytes
    while (this.#storedBytes > this.partEndBytes) whole.push(this.#cut(this.#partBytes))
    this.#partImageBytes += imageBytes
    if (this.#storedBytes === this.partEndBytes) whole.push(this.#cut(this.#partBytes))
    return whole
  }

  /** Returns the last part; undefined if the part before it ends with all. */
  end(): CutPart | undefined {
    const rest = this.#storedBytes - this.#parts * this.#partBytes
    return rest === 0 ? undefined : this.#cut(rest)
  }

  #cut(bytes: number): CutPart {
    const part = {
      number: this.#parts + 1,
      offsetBytes: this.#parts * this.#partBytes,
      bytes,
      imageBytes: this.#partImageBytes,
    }
    this.#parts += 1
    this.#partImageBytes = 0
    return part
  }
}
