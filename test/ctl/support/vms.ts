import assert from 'node:assert/strict'
import { SHA } from '../../daemon/support/controller-host.ts'
import type { VmId } from '../../../src/core/ids.ts'
import type { Fault } from '../../../src/core/vm/record.ts'
import type { CtlStage, Ran } from './ctl-stage.ts'

export const IMAGES = `--rootfs https://i.example/root#sha256=${SHA} --kernel https://i.example/vmlinux#sha256=${SHA}`

/** Creates a VM with the smallest command line and `more`. */
export const create = (stage: CtlStage, id: string, more = ''): Promise<Ran> =>
  stage.run(`vm create ${id} ${IMAGES} ${more}`)

/** Records a fault, as if the pool had no room for the disk of the VM. */
export function fail({ host: { store } }: CtlStage, id: string): void {
  const record = store.vms.get(id as VmId)
  assert.ok(record)
  const fault: Fault = {
    code: 'storage_full',
    step: 'storage.ensure-disk',
    message: 'no room',
    generation: record.generations.desired,
    sinceMs: 1,
    attempt: 1,
    nextAttemptAtMs: 60_000,
  }
  store.vms.recordProgress(id as VmId, { observed: { state: 'failed', sinceMs: 1, fault }, nowMs: 1 })
}

/** Records the desired state of the VM as reached by the host. */
export function settle({ host: { store } }: CtlStage, id: string): void {
  const record = store.vms.get(id as VmId)
  assert.ok(record)
  const { power, compute, disk } = record.desired
  store.vms.recordProgress(id as VmId, {
    observed: { state: power, sinceMs: 1, compute, disk: { sizeMib: disk.sizeMib } },
    observedGeneration: record.generations.desired,
    ...(power === 'stopped' ? { stopCarriedOut: record.stops.accepted } : {}),
    nowMs: 1,
  })
}
