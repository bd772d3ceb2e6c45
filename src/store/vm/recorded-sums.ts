import type { MemoryClass, Recorded } from '../../core/capacity/ledger.ts'
import type { Statements } from '../database/transactions.ts'
import type { UnwrittenProgress } from './vm-row.ts'

/** SQL for `owesRebuild` of core/vm: 1 or 0. The index `vms_by_promise` has this text. */
const OWES_REBUILD = `(ifnull(desired ->> '$.image.rebuild', 0) > ifnull(observed ->> '$.rebuild', 0))`

/**
 * SQL of the sums for the capacity ledger. Each admission reads them,
 * so they come from an index that has all they need.
 */
export const RECORDED_SUMS = `SELECT monitor, memory_mib AS memoryMib, count(*) AS vms,
    sum(can_sleep OR may_be_saved) AS sleepers, sum(memory_lent) AS lenders,
    sum(memory_lent AND can_sleep) AS partPromised, sum(cpu_millicores) AS cpuMillicores,
    sum(disk_mib * (1 + ${OWES_REBUILD})) AS disksMib, sum(holds_place) AS consolePlaces
  FROM vms GROUP BY monitor, memory_mib ORDER BY monitor, memory_mib`

type Sums = MemoryClass & Omit<Recorded, 'classes'>

/** SQL of how many of these VMs count as lenders. */
const LENDERS = `SELECT monitor, memory_mib AS memoryMib, count(*) AS lenders, sum(can_sleep) AS partPromised FROM vms
  WHERE memory_lent AND id IN (SELECT value FROM json_each(?)) GROUP BY monitor, memory_mib`

/** Returns the sums for the capacity ledger over every VM on record, including those under deletion. */
export function readRecorded(
  statements: Statements,
  { endedLoans }: Pick<UnwrittenProgress, 'endedLoans'>,
): Recorded {
  const rows = statements.of(RECORDED_SUMS).all() as Sums[]
  const ended =
    endedLoans.size === 0 ? [] : (statements.of(LENDERS).all(JSON.stringify([...endedLoans])) as Lenders[])
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
