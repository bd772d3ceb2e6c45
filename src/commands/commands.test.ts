import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { SignedUrl } from '../core/storage/signed-url.ts'
import { Store } from '../store/store.ts'
import { createVm } from './create-vm.ts'
import { deleteVm } from './delete-vm.ts'
import { setPower } from './set-power.ts'
import type { CreateVm } from '../core/vm/create.ts'
import type { OperationId, Sha256, VmId } from '../core/vm/ids.ts'
import type { CommandContext, CommandResult } from './context.ts'

const id = 'web-1' as VmId
const kernel = 'b'.repeat(64) as Sha256
let directory: string
let store: Store
let context: CommandContext
let pokes: string[]

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'vmhostd-commands-'))
  store = new Store(directory, { first: 600_000, count: 2 })
  pokes = []
  let operations = 0
  context = {
    store,
    now: () => 1000,
    newOperationId: () => `op-${(operations += 1)}` as OperationId,
    poke: (vm, reason) => pokes.push(`${vm}: ${reason}`),
  }
})

afterEach(() => {
  store.close()
  rmSync(directory, { recursive: true })
})

const request = (signature: string, changes: Partial<CreateVm> = {}): CreateVm => ({
  power: 'running',
  compute: { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 },
  disk: { sizeMib: 64 },
  image: {
    images: [
      {
        role: 'rootfs',
        sha256: 'a'.repeat(64) as Sha256,
        source: { url: new SignedUrl('https://i.example/a') },
      },
      {
        role: 'kernel',
        sha256: kernel,
        source: { url: new SignedUrl(`https://i.example/b?signature=${signature}`) },
      },
    ],
  },
  network: { ipv4Address: '192.0.2.10' },
  sshAuthorizedKeys: [],
  ...changes,
})

const accepted = (result: CommandResult) => {
  assert.ok(result.ok, result.ok ? '' : result.error.detail)
  return result.value
}
const refused = (result: CommandResult) => (result.ok ? 'accepted' : result.error.code)

test('a new VM is stored at generation 1 and its worker woken', () => {
  const { record, changed } = accepted(createVm(context, id, request('1')))
  assert.equal(changed, true)
  assert.deepEqual(record.generations, { desired: 1, observed: 0 })
  assert.match(record.desired.network?.macAddress ?? '', /^02:76:/)
  assert.deepEqual(pokes, ['web-1: created'])
})

test('the same request again changes nothing, even after the power was changed since', () => {
  createVm(context, id, request('1'))
  setPower(context, id, 'stopped')
  pokes = []
  const { record, changed } = accepted(createVm(context, id, request('1')))
  assert.equal(changed, false)
  assert.equal(record.generations.desired, 2)
  assert.deepEqual(pokes, [])
})

test('fresh URLs in a repeat replace the stored ones and raise no generation', () => {
  createVm(context, id, request('old'))
  pokes = []
  const { record, changed } = accepted(createVm(context, id, request('new')))
  assert.deepEqual([changed, record.generations.desired], [false, 1])
  assert.equal(store.vms.inputs(id).sources.get(kernel)?.url.reveal(), 'https://i.example/b?signature=new')
  assert.deepEqual(pokes, ['web-1: fresh image URLs'])
})

test('a different request for the same id is a conflict, and changes nothing', () => {
  createVm(context, id, request('1'))
  const before = store.vms.get(id)
  assert.equal(refused(createVm(context, id, request('1', { disk: { sizeMib: 65 } }))), 'conflict')
  assert.equal(refused(createVm(context, id, request('1', { userData: '#cloud-config' }))), 'conflict')
  assert.deepEqual(store.vms.get(id), before)
})

test('an address another VM has is refused', () => {
  createVm(context, id, request('1'))
  assert.equal(refused(createVm(context, 'web-2' as VmId, request('1'))), 'address_in_use')
})

test('a host whose user ids are used up refuses the next VM in words', () => {
  for (const [index, name] of ['a', 'b'].entries()) {
    accepted(
      createVm(context, name as VmId, request('1', { network: { ipv4Address: `192.0.2.${index + 1}` } })),
    )
  }
  assert.equal(refused(createVm(context, 'c' as VmId, request('1'))), 'user_ids_exhausted')
})

test('power is stored, raises a generation and names a new operation; the same power again does not', () => {
  const created = accepted(createVm(context, id, request('1')))
  const stopped = accepted(setPower(context, id, 'stopped'))
  assert.equal(stopped.record.generations.desired, 2)
  assert.notEqual(stopped.record.operationId, created.record.operationId)
  const again = accepted(setPower(context, id, 'stopped'))
  assert.deepEqual([again.changed, again.record.generations.desired], [false, 2])
})

test('a deletion is asked for once, and nothing else is taken after it', () => {
  createVm(context, id, request('1'))
  assert.equal(accepted(deleteVm(context, id)).changed, true)
  assert.equal(accepted(deleteVm(context, id)).changed, false)
  assert.equal(refused(setPower(context, id, 'running')), 'vm_deleting')
  assert.equal(refused(createVm(context, id, request('1'))), 'vm_deleting')
})

test('a VM that is not there is told so', () => {
  assert.equal(refused(setPower(context, id, 'running')), 'not_found')
  assert.equal(refused(deleteVm(context, id)), 'not_found')
})
