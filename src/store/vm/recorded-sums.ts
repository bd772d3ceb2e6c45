import type { MemoryClass, Recorded } from '../../core/capacity/ledger.ts'
import type { Statements } from '../database/transactions.ts'
import type { UnwrittenProgress } from './vm-row.ts'

/** The VMs over which a sum is: all on record, including those under deletion, or these alone. */
export type SummedVms = 'all' | 'under deletion'

/** The index `vms_under_deletion` has this text. */
const SELECTION: Readonly<Record<SummedVms, string>> = { all: 'true', 'under deletion': 'deleting' }

/** SQL for `owesRebuild` of core/vm: 1 or 0. The index `vms_by_promise` has this text. */
const OWES_REBUILD = `(ifnull(desired ->> '$.image.rebuild', 0) > ifnull(observed ->> '$.rebuild', 0))`

/**
 * SQL of the sums for the capacity ledger. Each admission reads those over all VMs, so they come from an index that has
 * all they need.
 */
export const SUMS: Readonly<Record<SummedVms, string>> = {
  all: sumsOver('all'),
  'under deletion': sumsOver('under deletion'),
}

function sumsOver(vms: SummedVms): string {
  return `SELECT monitor, memory_mib AS memoryMib, count(*) AS vms,
    sum(can_sleep OR may_be_saved) AS sleepers, sum(memory_lent) AS lenders,
    sum(memory_lent AND can_sleep) AS partPromised, sum(cpu_millicores) AS cpuMillicores,
    sum(disk_mib * (1 + ${OWES_REBUILD})) AS disksMib, sum(holds_place) AS consolePlaces
  FROM vms WHERE ${SELECTION[vms]} GROUP BY monitor, memory_mib ORDER BY monitor, memory_mib`
}

type Sums = MemoryClass & Omit<Recorded, 'classes'>

/** Returns the SQL of how many of some VMs with these ids count as lenders. */
function lendersAmong(vms: SummedVms): string {
  return `SELECT monitor, memory_mib AS memoryMib, count(*) AS lenders, sum(can_sleep) AS partPromised FROM vms
  WHERE ${SELECTION[vms]} AND memory_lent AND id IN (SELECT value FROM json_each(?)) GROUP BY monitor, memory_mib`
}

/** Returns the sums for the capacity ledger. */
export function readRecorded(
  statements: Statements,
  { endedLoans }: Pick<UnwrittenProgress, 'endedLoans'>,
  vms: SummedVms,
): Recorded {
  const rows = statements.of(SUMS[vms]).all() as Sums[]
  const ended =
    endedLoans.size === 0
      ? []
      : (statements.of(lendersAmong(vms)).all(JSON.stringify([...endedLoans])) as Lenders[])
  const all = { cpuMillicores: 0, disksMib: 0, consolePlaces: 0 }
  const classes = rows.map(({ cpuMillicores, disksMib, consolePlaces, ...one }) => {
    all.cpuMillicores += cpuMillicores
    all.disksMib += disksMib
    all.consolePlaces += consolePlaces
    return withoutLenders(one, ended)
  })
  return { ...all, classes }
}

type Lenders = Pick<MemoryClass, 'monitor' | 'memoryMib' | 'lenders' | 'partPromised'>

function withoutLenders(one: MemoryClass, all: readonly Lenders[]): MemoryClass {
  const ended = all.find(({ monitor, memoryMib }) => monitor === one.monitor && memoryMib === one.memoryMib)
  const { lenders = 0, partPromised = 0 } = ended ?? {}
  return { ...one, lenders: one.lenders - lenders, partPromised: one.partPromised - partPromised }
}
