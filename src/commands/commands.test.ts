import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage, createRequest } from '../../test/command-stage.ts'
import { createVm } from './create-vm.ts'
import { deleteVm } from './delete-vm.ts'
import { setPower } from './set-power.ts'
import type { Sha256, VmId } from '../core/vm/ids.ts'

const kernel = 'b'.repeat(64) as Sha256

test('a new VM is stored at generation 1 and its worker woken', (t) => {
  const { context, id, pokes, accepted } = commandStage(t)
  const { record, changed } = accepted(createVm(context, id, createRequest({}, '1')))
  assert.equal(changed, true)
  assert.deepEqual(record.generations, { desired: 1, observed: 0 })
  assert.match(record.desired.network?.macAddress ?? '', /^02:76:/)
  assert.deepEqual(pokes, ['web-1: created'])
})

test('the same request again changes nothing, even after the power was changed since', (t) => {
  const { context, id, pokes, accepted } = commandStage(t)
  createVm(context, id, createRequest({}, '1'))
  setPower(context, id, 'stopped')
  pokes.length = 0
  const { record, changed } = accepted(createVm(context, id, createRequest({}, '1')))
  assert.equal(changed, false)
  assert.equal(record.generations.desired, 2)
  assert.deepEqual(pokes, [])
})

test('fresh URLs in a repeat replace the stored ones and raise no generation', (t) => {
  const { context, id, store, pokes, accepted } = commandStage(t)
  createVm(context, id, createRequest({}, 'old'))
  pokes.length = 0
  const { record, changed } = accepted(createVm(context, id, createRequest({}, 'new')))
  assert.deepEqual([changed, record.generations.desired], [false, 1])
  assert.equal(store.vms.inputs(id).sources.get(kernel)?.url.reveal(), 'https://i.example/b?signature=new')
  assert.deepEqual(pokes, ['web-1: fresh image URLs'])
})

test('a different request for the same id is a conflict, and changes nothing', (t) => {
  const { context, id, store, refusal } = commandStage(t)
  createVm(context, id, createRequest({}, '1'))
  const before = store.vms.get(id)
  assert.equal(refusal(createVm(context, id, createRequest({ disk: { sizeMib: 65 } }, '1'))).code, 'conflict')
  assert.equal(
    refusal(createVm(context, id, createRequest({ userData: '#cloud-config' }, '1'))).code,
    'conflict',
  )
  assert.deepEqual(store.vms.get(id), before)
})

test('an address another VM has is refused', (t) => {
  const { context, id, refusal } = commandStage(t)
  createVm(context, id, createRequest({}, '1'))
  assert.equal(refusal(createVm(context, 'web-2' as VmId, createRequest({}, '1'))).code, 'address_in_use')
})

test('a host whose user ids are used up refuses the next VM in words', (t) => {
  const { context, accepted, refusal } = commandStage(t, 2)
  for (const [index, name] of ['a', 'b'].entries()) {
    accepted(
      createVm(
        context,
        name as VmId,
        createRequest({ network: { ipv4Address: `192.0.2.${index + 1}` } }, '1'),
      ),
    )
  }
  assert.equal(refusal(createVm(context, 'c' as VmId, createRequest({}, '1'))).code, 'user_ids_exhausted')
})

test('power is stored, raises a generation and names a new operation; the same power again does not', (t) => {
  const { context, id, accepted } = commandStage(t)
  const created = accepted(createVm(context, id, createRequest({}, '1')))
  const stopped = accepted(setPower(context, id, 'stopped'))
  assert.equal(stopped.record.generations.desired, 2)
  assert.notEqual(stopped.record.operationId, created.record.operationId)
  const again = accepted(setPower(context, id, 'stopped'))
  assert.deepEqual([again.changed, again.record.generations.desired], [false, 2])
})

test('a deletion is asked for once, and nothing else is taken after it', (t) => {
  const { context, id, accepted, refusal } = commandStage(t)
  createVm(context, id, createRequest({}, '1'))
  assert.equal(accepted(deleteVm(context, id)).changed, true)
  assert.equal(accepted(deleteVm(context, id)).changed, false)
  assert.equal(refusal(setPower(context, id, 'running')).code, 'vm_deleting')
  assert.equal(refusal(createVm(context, id, createRequest({}, '1'))).code, 'vm_deleting')
})

test('a VM that is not there is told so', (t) => {
  const { context, id, refusal } = commandStage(t)
  assert.equal(refusal(setPower(context, id, 'running')).code, 'not_found')
  assert.equal(refusal(deleteVm(context, id)).code, 'not_found')
})
