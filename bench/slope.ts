/** One measurement of a value. */
export type Point = { readonly at: number; readonly value: number }

/**
 * Returns the slope of the line through the points with the least squares of distances,
 * in units of value for each of `at`.
 */
export function slopeOf(points: readonly Point[]): number {
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, one) => sum + one, 0) / values.length
  const meanAt = mean(points.map(({ at }) => at))
  const meanValue = mean(points.map(({ value }) => value))
  const products = points.map(({ at, value }) => (at - meanAt) * (value - meanValue))
  const squares = points.map(({ at }) => (at - meanAt) ** 2)
  return mean(products) / mean(squares)
}
