/**
 * The most series of a metric. `perVm`: for each VM on record. `host`: for the whole host. `routes`: for each route of
 * an API that was called, with its method, at most so many. Each bucket of a histogram is a series of Prometheus; these
 * numbers count a histogram once.
 */
export type SeriesBound =
  | { readonly perVm: number }
  | { readonly host: number }
  | { readonly perRoute: number }

/** One metric, as it is documented and exposed. */
export type Metric<Label extends string = string> = {
  readonly name: string
  /** One sentence, with the unit. */
  readonly help: string
  readonly kind: 'gauge' | 'counter' | 'histogram'
  readonly labels: readonly Label[]
  readonly bound: SeriesBound
  /** Upper bounds of a histogram's buckets, ascending; in the unit of its name. */
  readonly buckets?: readonly number[]
}

/** Values for all labels of a metric. */
export type LabelsOf<M> = M extends Metric<infer Label> ? Readonly<Record<Label, string>> : never

type Entry<Label extends string> = {
  readonly labels?: readonly Label[]
  readonly bound?: SeriesBound
}

const ONE: SeriesBound = { host: 1 }

/** Describes a value that may fall. */
export const gauge = <Label extends string = never>(
  name: string,
  help: string,
  { labels = [], bound = ONE }: Entry<Label> = {},
): Metric<Label> => ({ name, help, kind: 'gauge', labels, bound })

/** Describes a value that only rises, until what counts it starts again. */
export const counter = <Label extends string = never>(
  name: string,
  help: string,
  { labels = [], bound = ONE }: Entry<Label> = {},
): Metric<Label> => ({ name, help, kind: 'counter', labels, bound })

export const histogram = <Label extends string = never>(
  name: string,
  help: string,
  { labels = [], bound = ONE, buckets }: Entry<Label> & { readonly buckets: readonly number[] },
): Metric<Label> => ({ name, help, kind: 'histogram', labels, bound, buckets })

/** Returns the bound of a metric with `series` for each VM, and the label `vm`. */
export const perVm = (series: number): SeriesBound => ({ perVm: series })

export const onHost = (series: number): SeriesBound => ({ host: series })
