/** Aims of the figures of `./dev bench`. An aim that is not met is shown as such, and fails nothing. */
import type { Measurement } from '../../bench/measurement.ts'

/**
 * `ratio` is ours to the reference; `ours` and `more`, which is ours less the reference, are in the unit of the row.
 * The bound is a maximum, or a minimum for a rate.
 */
export type Aim = { readonly ratio: number } | { readonly ours: number } | { readonly more: number }

const AIMS: Readonly<Record<string, Aim>> = {
  'api/read_p99_ms': { ratio: 1.3 },
  'boot/first_ping_ms': { ratio: 1.1 },
  'console/noisy_other_echo_p99_ms': { ratio: 2 },
  // 0.05 MiB for each VM.
  'console/rss_200_mib': { more: 10 },
  'executable/idle_rss_mib': { ours: 80 },
  'executable/listening_ms': { ours: 500 },
  'image/to_running_ms': { ratio: 1.25 },
  'load/adopt_1000_ms': { ours: 3000 },
  'load/boot_storm_20_s': { ratio: 1.1 },
  'load/create_1000_s': { ratio: 1.5 },
  'load/idle_cpu_percent': { ours: 2 },
  'load/listener_up_ms': { ours: 500 },
  'load/rss_1000_mib': { ours: 150 },
  'load/sync_p99_ms': { ours: 50 },
  'peers/define_ms': { ratio: 1 },
  'peers/list_states_100_ms': { ratio: 1 },
  'save/goes_on_max_ms': { ours: 50 },
  'save/mibps': { ratio: 0.6 },
  'sleepers/idle_cpu_percent': { ours: 1 },
  'sleepers/list_1000_p99_ms': { ours: 50 },
  'sleepers/start_ms': { ours: 5000 },
  // Growth of an hour. A leak of one in a thousand acts of soak would be some twenty.
  'soak/descriptors_slope': { ours: 1 },
  'soak/timers_slope': { ours: 1 },
  // Of the level: no two collections leave the same, and pages of the database are used again.
  'soak/memory_slope': { ratio: 0.05 },
  'soak/database_slope': { ratio: 0.05 },
  'snapshot/mibps': { ratio: 0.95 },
  'wake/first_byte_p50_ms': { ratio: 1.1 },
  'watch/cpu_500_asleep_percent': { ratio: 1.1 },
}

/** A rate: more is better. Everything else costs something. */
export const isRate = ({ unit }: Pick<Measurement, 'unit'>): boolean => unit.endsWith('/s') || unit === 'VMs'

export const aimOf = ({ bench, metric }: Measurement): Aim | undefined => AIMS[`${bench}/${metric}`]

/** Returns whether a row meets its aim; undefined if it has none. */
export function meetsAim(row: Measurement): boolean | undefined {
  const aim = aimOf(row)
  if (aim === undefined) return undefined
  if ('ratio' in aim) return isRate(row) ? row.ratio >= aim.ratio : row.ratio <= aim.ratio
  const bound = boundOf(aim, row)
  return isRate(row) ? row.ours >= bound : row.ours <= bound
}

/** Returns the bound of ours, in the unit of the row. */
export function boundOf(aim: Aim, { reference }: Pick<Measurement, 'reference'>): number {
  if ('ratio' in aim) return aim.ratio * reference
  return 'more' in aim ? reference + aim.more : aim.ours
}

/**
 * Returns how many times the reference's cost ours is, so that less is better for every row. Undefined if the figures
 * do not say: a difference or a count may be 0.
 */
export function costOf(row: Measurement): number | undefined {
  const cost = isRate(row) ? row.reference / row.ours : row.ours / row.reference
  return Number.isFinite(cost) && cost > 0 ? cost : undefined
}
