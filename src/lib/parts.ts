/** Cuts a list into parts of at most `size` items, in order. */
export function* partsOf<T>(all: readonly T[], size: number): Generator<readonly T[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size)
}
