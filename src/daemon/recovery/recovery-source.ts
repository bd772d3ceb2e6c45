import { readFileSync } from 'node:fs'
import { desiredOf, inputsOf } from '../../commands/vm/create-vm.ts'
import { createFromWire } from '../../api/wire/vm-from-wire.ts'
import { createVmSchema } from '../../api/wire/requests.ts'
import { placeOfJsonError } from '../../lib/parsed-values.ts'
import { checkerFor } from '../../lib/schema-check.ts'
import { nameServersOf } from '../policies.ts'
import type { Config } from '../../config/config.ts'
import type { RecoverySource } from '../../commands/vm/recover-vm.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import type { Complaint } from '../../lib/schema-check.ts'
import type { CreateVmWire } from '../../api/wire/requests.ts'
import type { Orphan } from '../../core/recovery/judge-orphan.ts'
import type { Store } from '../../store/store.ts'

const check = checkerFor(createVmSchema, new Map())

/** Reads the request that created a VM, as the API takes it. Throws an error for the operator. */
export function sourceFromRequest(path: string, config: Config, orphan: Orphan): RecoverySource {
  const body = jsonIn(path)
  refuse(path, check(body))
  const request = createFromWire(body as CreateVmWire)
  if (!request.ok) {
    refuse(path, request.error)
    throw new Error(`${path} is not a request`)
  }
  const { value } = request
  const shown = orphan.saved?.monitor.program.includes('firecracker') === true ? 'firecracker' : 'qemu'
  const configured = config.monitor.kind === 'auto' ? shown : config.monitor.kind
  return {
    // The MAC address follows from the user, which is found later.
    desired: desiredOf({ nameServers: nameServersOf(config) }, value, 0 as UserId),
    macIsChosen: value.network?.macAddress !== undefined,
    metadata: value.metadata,
    monitor: value.monitor ?? (orphan.saved === undefined ? configured : shown),
    inputs: inputsOf(value),
  }
}

function jsonIn(path: string): unknown {
  const text = textOf(path)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw notJson(path, error)
  }
}

/** Names the path, which the error of a directory does not. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    throw new Error(`${path} cannot be read`, { cause })
  }
}

/** Leaves out the cause, which quotes the text. */
const notJson = (path: string, cause: unknown): Error =>
  new Error(`${path} is not JSON${placeOfJsonError(cause)}`)

function refuse(path: string, complaints: readonly Complaint[]): void {
  if (complaints.length === 0) return
  const words = complaints.map(({ pointer, detail }) => `${pointer} ${detail}`)
  throw new Error(`${path} is not a request that creates a VM: ${words.join('; ')}`)
}

/** Takes a VM from the records of a backup. Throws an error for the operator if the disk is not of that VM. */
export function sourceFromStore(store: Store, id: VmId, orphan: Orphan): RecoverySource {
  const record = store.vms.get(id)
  if (record === undefined) throw new Error(`there is no record of ${id} in that file`)
  const { createdAtMs } = orphan
  if (createdAtMs !== undefined && createdAtMs !== record.createdAtMs)
    throw new Error(
      `the record of ${id} in that file is of another VM, created ${new Date(record.createdAtMs).toISOString()}`,
    )
  if (record.departure?.stage === 'released')
    throw new Error(
      `the record of ${id} in that file says that it has moved to ${record.departure.node}, and its guest may run there: if that host is lost, use --request`,
    )
  const { migration: _migration, ...desired } = record.desired
  const { monitor, metadata } = record
  return { desired, macIsChosen: true, metadata, monitor, inputs: store.vms.inputs(id) }
}
