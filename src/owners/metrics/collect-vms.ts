import { setImmediate as nextTurn } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { metrics } from '../../core/metrics/catalogue.ts'
import { MIGRATION_STAGES } from '../../core/metrics/label-values.ts'
import { OBSERVED_STATES, wakesOf } from '../../core/vm/record.ts'
import { MIB } from '../../lib/byte-units.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Store } from '../../store/store.ts'
import type { Samples } from './samples.ts'

/** Yields all VMs on record, a few in each turn of the event loop. */
export async function* recordsOf({ vms }: Pick<Store, 'vms'>): AsyncGenerator<VmRecord> {
  let after: VmId | undefined
  for (;;) {
    const page = vms.list({ limit: limits.metricsVmsATurn, ...(after === undefined ? {} : { after }) })
    yield* page
    if (page.length < limits.metricsVmsATurn) return
    after = page.at(-1)?.id
    await nextTurn()
  }
}

/** Collects what the records of VMs show. */
export async function collectVms(store: Pick<Store, 'vms'>, samples: Samples): Promise<void> {
  const byState = new Map<string, number>()
  const moves = new Map<string, number>()
  const count = (counts: Map<string, number>, key: string): void =>
    void counts.set(key, (counts.get(key) ?? 0) + 1)
  for await (const record of recordsOf(store)) {
    count(byState, record.observed.state)
    if (record.departure !== undefined) count(moves, `departure ${record.departure.stage}`)
    if (record.arrival !== undefined) count(moves, `arrival ${record.arrival.stage}`)
    addVm(record, samples)
  }
  for (const state of OBSERVED_STATES) samples.add(metrics.vms, byState.get(state) ?? 0, { state })
  for (const direction of ['departure', 'arrival'] as const) {
    for (const stage of MIGRATION_STAGES[direction])
      samples.add(metrics.migrations, moves.get(`${direction} ${stage}`) ?? 0, { direction, stage })
  }
}

function addVm(record: VmRecord, samples: Samples): void {
  const { id: vm, desired, observed, monitor } = record
  samples.add(metrics.vmState, 1, { vm, state: observed.state })
  samples.add(metrics.vmMonitor, 1, { vm, monitor })
  samples.add(metrics.vmCpus, desired.compute.cpuMillicores / 1000, { vm })
  samples.add(metrics.vmMemory, desired.compute.memoryMib * MIB, { vm })
  const { disk, startedAtMs, fault } = observed
  if (disk?.unseen !== true) samples.add(metrics.vmDisk, disk && disk.sizeMib * MIB, { vm })
  samples.add(metrics.vmStarted, startedAtMs && startedAtMs / 1000, { vm })
  if (fault !== undefined) samples.add(metrics.vmFaultSince, fault.sinceMs / 1000, { vm, code: fault.code })
  samples.add(metrics.vmRestarts, observed.restarts ?? 0, { vm })
  samples.add(metrics.vmWakes, wakesOf(record)?.count, { vm })
}
