import type { GatedFile } from '../files/gated-file.ts'

export type ImageFrame = { readonly from: number; readonly bytes: number; readonly hole: boolean }

/**
 * Cuts a file that no process writes into frames, from an offset on. A frame without any data is a hole: it reads as
 * zeros, and need not be read. Throws ErrnoError.
 */
export async function* framesOf(
  file: GatedFile,
  range: { readonly from: number; readonly to: number; readonly frameBytes: number },
): AsyncGenerator<ImageFrame, void> {
  let data = -1
  for (let from = range.from; from < range.to; from += range.frameBytes) {
    const to = Math.min(from + range.frameBytes, range.to)
    if (data < from) data = (await file.dataFrom(from)) ?? ((await file.isHoleToEnd(from)) ? range.to : from)
    yield { from, bytes: to - from, hole: data >= to }
  }
}
