import { limits } from '../../config/limits.ts'
import type { Extent } from '../../core/migration/extents.ts'

/** Extents whose data is read with one call, from the first of it to the last. */
export type ExtentGroup = {
  readonly extents: readonly Extent[]
  readonly from: number
  readonly to: number
}

/**
 * Yields extents in groups, because a guest often writes many small stretches near each other. The bytes between two of a
 * group are read and not used.
 */
export async function* groupsOf(extents: AsyncIterable<Extent>): AsyncGenerator<ExtentGroup, void> {
  let group: Extent[] = []
  let data: { readonly from: number; readonly to: number } | undefined
  const grouped = (): ExtentGroup => ({ extents: group, ...(data ?? { from: 0, to: 0 }) })
  for await (const extent of extents) {
    if (group.length > 0 && !fits(extent, data, group.length)) {
      yield grouped()
      group = []
      data = undefined
    }
    group.push(extent)
    if (extent.kind === 'data')
      data = { from: data?.from ?? extent.offset, to: extent.offset + extent.length }
  }
  if (group.length > 0) yield grouped()
}

function fits(
  { kind, offset, length }: Extent,
  data: { readonly from: number; readonly to: number } | undefined,
  count: number,
): boolean {
  if (count === limits.roundGroupExtentsMax) return false
  if (kind === 'hole' || data === undefined) return true
  return (
    offset - data.to <= limits.roundGapBytesMax && offset + length - data.from <= limits.roundFrameBytesMax
  )
}
