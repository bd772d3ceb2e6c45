import { imagesOf } from '../../core/desired.ts'
import { deviceName } from '../../core/network/tap.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import { assert } from '../../lib/assert.ts'
import { given } from '../../lib/given.ts'
import { desiredColumns } from './desired-change.ts'
import { jsonOf } from './vm-row.ts'
import type { Desired } from '../../core/desired.ts'
import type { OperationId, Sha256, UserId, VmId } from '../../core/ids.ts'
import type { MonitorKind } from '../../core/monitor/monitor-kind.ts'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { InputsChange, VmInputs } from '../../core/vm/create.ts'
import type { Metadata, Observed } from '../../core/vm/record.ts'
import type { Statements } from '../database/transactions.ts'

export type NewVm = {
  readonly id: VmId
  readonly userId: UserId
  readonly monitor: MonitorKind
  readonly desired: Desired
  readonly metadata: Metadata
  readonly inputs: VmInputs
  readonly operationId: OperationId
  readonly nowMs: number
  /** Present if the VM comes from another host. */
  readonly move?: Move
  /** Present if the VM is on the host already, and its record is gone. */
  readonly recovered?: Recovered
}

/** The facts about a VM whose record is made again. */
export type Recovered = {
  /** Disk and unit carry it. */
  readonly createdAtMs: number
  readonly diskMib: number
  /** Whether its guest is saved in the pool. */
  readonly isSaved: boolean
}

/** A VM that comes from another host, and what continues here. */
export type Move = {
  readonly arrival: Arrival
  /** When the VM was created at its first host. The guest's instance id has it, so it stays for the life of the VM. */
  readonly createdAtMs: number
  /** Whether memory comes with it. */
  readonly bringsMemory: boolean
  readonly exitStreak: number
  readonly lastTrafficAtMs?: number
  readonly keepAwakeUntilMs?: number
}

/** Writes the rows of a new VM, within a transaction. */
export function insertVm(statements: Statements, vm: NewVm, revision: number): void {
  const { move, recovered } = vm
  const isNew = move === undefined && recovered === undefined
  const observed = firstObserved(vm)
  statements.insert('vms', {
    id: vm.id,
    user_id: vm.userId,
    device: deviceName(vm.userId),
    monitor: vm.monitor,
    ...desiredColumns(vm.desired),
    labels: JSON.stringify(vm.metadata.labels),
    protected: vm.metadata.protected ? 1 : 0,
    desired_generation: 1,
    observed_generation: 0,
    // The power of a VM that comes or is recovered was set before, and its guest is neither made nor ended for it.
    power_generation: isNew ? 1 : 0,
    stop_accepted: isNew && vm.desired.power === 'stopped' ? 1 : 0,
    operation_id: vm.operationId,
    state: observed.state,
    observed: JSON.stringify(observed),
    arrival: jsonOf(move?.arrival),
    may_be_saved: move?.bringsMemory === true || recovered?.isSaved === true ? 1 : 0,
    keep_awake_until_ms: move?.keepAwakeUntilMs ?? null,
    exit_streak: move?.exitStreak ?? 0,
    revision,
    created_at_ms: move?.createdAtMs ?? recovered?.createdAtMs ?? vm.nowMs,
    updated_at_ms: vm.nowMs,
  })
  statements.insert('vm_inputs', {
    vm_id: vm.id,
    request: vm.inputs.request,
    sources: sourcesJson(vm.inputs.sources),
    user_data: vm.inputs.userData ?? null,
    ssh_authorized_keys: JSON.stringify(vm.inputs.sshAuthorizedKeys),
  })
}

const firstObserved = ({ nowMs, move, recovered, desired }: NewVm): Observed => ({
  state: 'pending',
  sinceMs: nowMs,
  // The disk of a VM that comes is that of its last rebuild.
  ...given({
    lastTrafficAtMs: move?.lastTrafficAtMs,
    rebuild: desired.image.rebuild,
    // Without it, a disk that goes missing later would be made again from its image.
    disk: recovered && { sizeMib: recovered.diskMib },
  }),
})

/** Writes a change of the inputs, within a transaction and after the change of desired state. */
export function changeInputs(statements: Statements, id: VmId, change: InputsChange): void {
  const { userData, sshAuthorizedKeys, sources } = change
  if (sources !== undefined) addSources(statements, id, sources)
  if (userData !== undefined)
    statements.of('UPDATE vm_inputs SET user_data = ? WHERE vm_id = ?').run(userData, id)
  if (sshAuthorizedKeys !== undefined) {
    const keys = JSON.stringify(sshAuthorizedKeys)
    statements.of('UPDATE vm_inputs SET ssh_authorized_keys = ? WHERE vm_id = ?').run(keys, id)
  }
}

function addSources(statements: Statements, id: VmId, sources: VmInputs['sources']): void {
  const row = statements.of('SELECT desired FROM vms WHERE id = ?').get(id)
  const { image } = JSON.parse(String(row?.['desired'])) as Desired
  const needed = new Set(imagesOf(image).map(({ sha256 }) => sha256))
  const all = [...readInputs(statements, id).sources, ...sources].filter(([sha256]) => needed.has(sha256))
  statements.of('UPDATE vm_inputs SET sources = ? WHERE vm_id = ?').run(sourcesJson(new Map(all)), id)
}

/** Reads the inputs of the VM. */
export function readInputs(statements: Statements, id: VmId): VmInputs {
  const row = statements.of('SELECT * FROM vm_inputs WHERE vm_id = ?').get(id)
  assert(row !== undefined, `${id}: a VM without inputs`)
  const sources = Object.entries(JSON.parse(String(row['sources'])) as Record<string, string>)
  return {
    request: String(row['request']),
    sources: new Map(sources.map(([sha256, url]) => [sha256 as Sha256, { url: new SignedUrl(url) }])),
    ...(row['user_data'] === null ? {} : { userData: String(row['user_data']) }),
    sshAuthorizedKeys: JSON.parse(String(row['ssh_authorized_keys'])) as string[],
  }
}

const sourcesJson = (sources: VmInputs['sources']): string =>
  JSON.stringify(Object.fromEntries([...sources].map(([sha256, source]) => [sha256, source.url.reveal()])))
