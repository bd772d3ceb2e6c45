import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { changedExtents } from '../../core/migration/changed-extents.ts'
import type { PhysicalExtent } from '../../core/migration/changed-extents.ts'
import { ExtentCutter } from '../../core/migration/extents.ts'
import type { Extent } from '../../core/migration/extents.ts'
import { assert } from '../../lib/assert.ts'
import type { GatedFile } from '../files/gated-file.ts'
import type { QuietStretches } from './kept-of-streams.ts'

/** Two clones of one disk. Without `before`, all data of `now` has changed: so it may be any file. */
export type Clones = {
  readonly now: GatedFile
  readonly before?: GatedFile
  readonly sizeBytes: number
  /** The stretches of these two that are known not to differ. More are added. */
  readonly quiet?: QuietStretches
}

/**
 * Yields what differs between two clones from an offset on, in pieces of at most one frame of data. It reads the maps
 * page by page, so its memory does not depend on the number of extents.
 */
export async function* changesOf(
  { now, before, sizeBytes, quiet }: Clones,
  from: number,
  signal: AbortSignal,
): AsyncGenerator<Extent, void> {
  const cutter = new ExtentCutter(limits.roundFrameBytesMax)
  const [earlier, later] = [new MapPages(before), new MapPages(now)]
  let run: QuietRun = { from, pages: 0 }
  for (let at = from; at < sizeBytes;) {
    signal.throwIfAborted()
    const quietTo = quiet?.endOf(at)
    if (quietTo !== undefined) {
      at = quietTo
      run = { from: at, pages: 0 }
      continue
    }
    const [was, is] = [await earlier.from(at), await later.from(at)]
    const to = Math.min(was.to, is.to, sizeBytes)
    assert(to > at, 'a page of a map ends behind its beginning')
    const changes = changedExtents({ before: was.extents, now: is.extents, from: at, to })
    for (const change of changes) yield* cutter.add(change)
    at = to
    run = changes.length > 0 ? { from: at, pages: 0 } : { from: run.from, pages: run.pages + 1 }
    if (run.pages === limits.quietPagesMin) {
      quiet?.note(run.from, at)
      run = { from: at, pages: 0 }
    }
  }
  yield* cutter.end()
}

/** Pages without a difference, one after another. A run that is long enough is noted as a quiet stretch. */
type QuietRun = { readonly from: number; readonly pages: number }

type KnownMap = {
  readonly extents: readonly PhysicalExtent[]
  /** The map is known up to here. */
  readonly to: number
}

/** The map of a file, one page at a time; without a file, an empty one. */
class MapPages {
  readonly #file: GatedFile | undefined
  #page: KnownMap

  constructor(file: GatedFile | undefined) {
    this.#file = file
    this.#page = { extents: [], to: file === undefined ? Number.POSITIVE_INFINITY : 0 }
  }

  /** Returns the map from an offset on. Offsets ascend from call to call. */
  async from(offset: number): Promise<KnownMap> {
    if (this.#file !== undefined && this.#page.to <= offset) {
      const page = await this.#file.readMap(offset, limits.mapExtentsMax)
      if (page === undefined) throw new HostFault('storage_failed', 'reading the map of a file')
      const { logical, length } = page.extents.at(-1) ?? { logical: 0, length: 0 }
      const to = page.isLast ? Number.POSITIVE_INFINITY : logical + length
      this.#page = { extents: page.extents, to }
    }
    return this.#page
  }
}
