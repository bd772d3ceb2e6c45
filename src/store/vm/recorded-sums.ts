import type { MemoryClass, Recorded } from '../../core/capacity/ledger.ts'
import type { Statements } from '../database/transactions.ts'
import type { UnwrittenProgress } from './vm-row.ts'

/** SQL for `owesRebuild` of core/vm: 1 or 0. The index `vms_by_promise` has this text. */
const OWES_REBUILD = `(ifnull(desired ->> '$.image.rebuild', 0) > ifnull(observed ->> '$.rebuild', 0))`

/** SQL of the sums for the capacity ledger. Each admission reads them, so both read an index that has all they need. */
export const RECORDED_SUMS = {
  all: `SELECT ifnull(sum(cpu_millicores), 0) AS cpuMillicores, ifnull(sum(disk_mib * (1 + ${OWES_REBUILD})), 0) AS disksMib,
     ifnull(sum(holds_place), 0) AS consolePlaces FROM vms`,
  classes: `SELECT monitor, memory_mib AS memoryMib, count(*) AS vms, sum(can_sleep OR may_be_saved) AS sleepers,
     sum(memory_lent) AS lenders, sum(memory_lent AND can_sleep) AS partPromised FROM vms
   GROUP BY monitor, memory_mib ORDER BY monitor, memory_mib`,
} as const

/** SQL of how many of these VMs count as lenders. */
const LENDERS = `SELECT monitor, memory_mib AS memoryMib, count(*) AS lenders, sum(can_sleep) AS partPromised FROM vms
  WHERE memory_lent AND id IN (SELECT value FROM json_each(?)) GROUP BY monitor, memory_mib`

/** Returns the sums for the capacity ledger over every VM on record, including those under deletion. */
export function readRecorded(
  statements: Statements,
  { endedLoans }: Pick<UnwrittenProgress, 'endedLoans'>,
): Recorded {
  const sums = statements.of(RECORDED_SUMS.all).get() as Omit<Recorded, 'classes'>
  const classes = statements.of(RECORDED_SUMS.classes).all() as MemoryClass[]
  const ended =
    endedLoans.size === 0 ? [] : (statements.of(LENDERS).all(JSON.stringify([...endedLoans])) as Lenders[])
  return { ...sums, classes: classes.map((one) => withoutLenders(one, ended)) }
}

type Lenders = Pick<MemoryClass, 'monitor' | 'memoryMib' | 'lenders' | 'partPromised'>

function withoutLenders(one: MemoryClass, all: readonly Lenders[]): MemoryClass {
  const ended = all.find(({ monitor, memoryMib }) => monitor === one.monitor && memoryMib === one.memoryMib)
  const { lenders = 0, partPromised = 0 } = ended ?? {}
  return { ...one, lenders: one.lenders - lenders, partPromised: one.partPromised - partPromised }
}
