import { joined } from './extents.ts'
import type { Extent } from './extents.ts'

/** A stretch of a file with its place on the file system, as FIEMAP reports it, in bytes. */
export type PhysicalExtent = {
  readonly logical: number
  readonly physical: number
  readonly length: number
  /** FIEMAP_EXTENT_* of linux/fiemap.h. */
  readonly flags: number
}

/** Flags of an extent: linux/fiemap.h, and Documentation/filesystems/fiemap.rst of the kernel. */
export const FIEMAP_EXTENT = {
  LAST: 0x1,
  UNKNOWN: 0x2,
  DELALLOC: 0x4,
  ENCODED: 0x8,
  DATA_ENCRYPTED: 0x80,
  NOT_ALIGNED: 0x100,
  DATA_INLINE: 0x200,
  DATA_TAIL: 0x400,
  UNWRITTEN: 0x800,
  SHARED: 0x2000,
} as const

/** With one of these, `physical` is not the place of the data, or not of the data alone. */
const PLACELESS =
  FIEMAP_EXTENT.UNKNOWN |
  FIEMAP_EXTENT.DELALLOC |
  FIEMAP_EXTENT.ENCODED |
  FIEMAP_EXTENT.DATA_ENCRYPTED |
  FIEMAP_EXTENT.NOT_ALIGNED |
  FIEMAP_EXTENT.DATA_INLINE |
  FIEMAP_EXTENT.DATA_TAIL

/** A part of two maps of one disk, each in ascending order; both are complete from `from` to `to`. */
export type MapComparison = {
  /**
   * The earlier clone, which must still exist: only then can no block of it be used again. Empty for the first round.
   */
  readonly before: readonly PhysicalExtent[]
  readonly now: readonly PhysicalExtent[]
  readonly from: number
  readonly to: number
}

/**
 * Returns what differs between two clones of one disk, in ascending order, with neighbours joined. A stretch is the
 * same if both clones have it in the same place, or if it reads as zeros in both. One that may be the same, but of
 * which the file system does not say so, counts as data.
 */
export function changedExtents({ before, now, from, to }: MapComparison): Extent[] {
  const changes: Extent[] = []
  const [earlier, later] = [new MapWalk(before, to), new MapWalk(now, to)]
  for (let at = from; at < to;) {
    const [was, is] = [earlier.at(at), later.at(at)]
    const end = Math.min(was.end, is.end)
    const kind = changeOf(was.place, is.place)
    if (kind !== undefined) join(changes, { kind, offset: at, length: end - at })
    at = end
  }
  return changes
}

/** Where a byte lies: an address on the file system, nowhere (it reads as zero), or in a place that is not reported. */
type Place = number | 'zeros' | 'unknown'

function changeOf(was: Place, is: Place): Extent['kind'] | undefined {
  if (is === 'zeros') return was === 'zeros' ? undefined : 'hole'
  return is === 'unknown' || is !== was ? 'data' : undefined
}

/** Finds places in a map, for ascending offsets. */
class MapWalk {
  readonly #extents: readonly PhysicalExtent[]
  readonly #to: number
  #index = 0

  constructor(extents: readonly PhysicalExtent[], to: number) {
    this.#extents = extents
    this.#to = to
  }

  /** Returns the place of the byte at `offset`, and the end of the stretch that continues it. */
  at(offset: number): { readonly place: Place; readonly end: number } {
    for (; ; this.#index += 1) {
      const extent = this.#extents[this.#index]
      if (extent === undefined) return { place: 'zeros', end: this.#to }
      const end = extent.logical + extent.length
      if (end <= offset) continue
      if (extent.logical > offset) return { place: 'zeros', end: Math.min(extent.logical, this.#to) }
      return { place: placeIn(extent, offset), end: Math.min(end, this.#to) }
    }
  }
}

function placeIn({ logical, physical, flags }: PhysicalExtent, offset: number): Place {
  // Delayed allocation comes first: the data is in memory, whatever the file system has in that place.
  if ((flags & PLACELESS) !== 0) return 'unknown'
  if ((flags & FIEMAP_EXTENT.UNWRITTEN) !== 0) return 'zeros'
  return physical + (offset - logical)
}

function join(extents: Extent[], extent: Extent): void {
  const last = extents.at(-1)
  const whole = last && joined(last, extent)
  if (whole === undefined) extents.push(extent)
  else extents[extents.length - 1] = whole
}
