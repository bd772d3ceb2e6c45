import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage, createRequest } from '../../../test/command-stage.ts'
import { offered } from '../../../test/offered-vm.ts'
import { recordOf } from '../../../test/record.ts'
import { limits } from '../../config/limits.ts'
import { NO_SHARES, ledgerOf, totalsOf } from '../../core/capacity/ledger.ts'
import { inputsOf } from '../vm/create-vm.ts'
import { deleteVm } from '../vm/delete-vm.ts'
import { setCompute } from '../vm/reshape.ts'
import { takeVm } from './take-vm.ts'
import type { Departure, DepartureStage } from '../../core/migration/departure.ts'

test('a VM that was rebuilt at its source needs the room of one disk here', (t) => {
  const { context, id, store, capacity, accepted, refusal } = commandStage(t)
  const before = recordOf()
  const { image, disk } = before.desired
  const record = recordOf({ desired: { ...before.desired, image: { ...image, rebuild: 2 } } })
  const request = offered(id, record)
  capacity.total.diskMib = disk.sizeMib - 1
  assert.equal(refusal(takeVm(context, id, request)).code, 'insufficient_capacity')
  capacity.total.diskMib = disk.sizeMib
  accepted(takeVm(context, id, request))
  assert.equal(store.vms.recorded().disksMib, disk.sizeMib)
})

test('a VM that brings its memory needs room for that here, although it never sleeps', (t) => {
  const { context, id, store, capacity, accepted, refusal } = commandStage(t)
  const { desired, ...before } = recordOf()
  const compute = { ...desired.compute, sleepAfterIdleSeconds: 0 }
  const request = offered(id, { ...before, desired: { ...desired, compute } }, 'live')
  const neededMib = desired.disk.sizeMib + compute.memoryMib + limits.savedDevicesMib
  capacity.total.diskMib = neededMib - 1
  assert.equal(refusal(takeVm(context, id, request)).code, 'insufficient_capacity')
  capacity.total.diskMib = neededMib
  accepted(takeVm(context, id, request))
  assert.equal(totalsOf(ledgerOf(store.vms.recorded(), NO_SHARES, capacity.memoryTerms())).diskMib, neededMib)
})

test('a VM without an address that comes with an idle timeout is one that never sleeps', (t) => {
  const { context, id, store, accepted } = commandStage(t)
  const { desired, ...before } = recordOf()
  const { macAddress } = desired.network ?? assert.fail()
  const compute = { ...desired.compute, sleepAfterIdleSeconds: 60 }
  const request = offered(id, { ...before, desired: { ...desired, compute, network: { macAddress } } })
  accepted(takeVm(context, id, request))
  const { classes, consolePlaces } = store.vms.recorded()
  assert.deepEqual([classes[0]?.sleepers, consolePlaces], [0, 1])
})

test('another address of the source is an operation of its own', (t) => {
  const { context, id, accepted } = commandStage(t)
  const request = offered(id, recordOf())
  const { record } = accepted(takeVm(context, id, request))
  assert.equal(accepted(takeVm(context, id, request)).changed, false)
  const { changed, operationId } = accepted(
    takeVm(context, id, { ...request, source: 'https://192.0.2.9:9001' }),
  )
  assert.deepEqual([changed, operationId !== undefined], [true, true])
  assert.notEqual(operationId, record.operationId)
})

test('a VM that is here needs its source no more, and takes no other address of it', (t) => {
  const { context, id, store, accepted } = commandStage(t)
  const request = offered(id, recordOf())
  const { arrival } = accepted(takeVm(context, id, request)).record
  assert.ok(arrival !== undefined)
  store.arrivals.set(id, { ...arrival, stage: 'released', releasedAtMs: 1 }, 1)
  assert.equal(accepted(takeVm(context, id, { ...request, source: 'https://192.0.2.9:9001' })).changed, false)
  assert.equal(store.vms.get(id)?.arrival?.source, request.source)
})

test('a VM is taken until its guest must be down for another attempt', (t) => {
  const { context, id, accepted, refusal } = commandStage(t)
  const { manifest, ...request } = offered(id, recordOf())
  const take = (stage: DepartureStage) =>
    takeVm(context, id, { ...request, manifest: { ...manifest, stage } })
  for (const stage of ['handing_over', 'handed_over', 'released'] as const)
    assert.equal(refusal(take(stage)).code, 'migration_unavailable')
  accepted(take('copying'))
})

test('the SSH host key that was pinned at the source is pinned here too', (t) => {
  const { context, id, store, accepted } = commandStage(t)
  const { manifest, ...request } = offered(id, recordOf())
  const vm = { ...manifest.vm, sshHostKey: 'SHA256:of-the-guest' }
  accepted(takeVm(context, id, { ...request, manifest: { ...manifest, vm } }))
  assert.equal(store.sshHostKeys.get(id), 'SHA256:of-the-guest')
})

test('a VM that is being deleted here is not taken again before it is gone', (t) => {
  const { context, id, store, accepted, refusal } = commandStage(t)
  const request = offered(id, recordOf())
  accepted(takeVm(context, id, request))
  accepted(deleteVm(context, id))
  assert.equal(refusal(takeVm(context, id, request)).code, 'vm_deleting')
  store.vms.forget(id, 2000)
  accepted(takeVm(context, id, request))
})

for (const request of ['x', 'null', '{}', '{"images":{}}', '{"images":[null]}', spaced()])
  test(`a VM that another host says was created by ${request.slice(0, 40)} is in conflict with a creation`, (t) => {
    const { context, id, create, accepted, refusal } = commandStage(t)
    const offer = offered(id, recordOf())
    const { vm } = offer.manifest
    const manifest = { ...offer.manifest, vm: { ...vm, inputs: { ...vm.inputs, request } } }
    accepted(takeVm(context, id, { ...offer, manifest }))
    const { code, text } = refusal(create())
    assert.equal(code, 'conflict')
    assert.match(text, /^web-1 was created by a request that differs: delete it first/)
  })

/** Returns the request of the stage, with other white space than this host writes. */
function spaced(): string {
  return `${inputsOf(createRequest()).request} `
}

test('a VM that comes takes no change, whatever the change would need', (t) => {
  const { context, id, accepted, refusal } = commandStage(t)
  accepted(takeVm(context, id, offered(id, recordOf())))
  const { code } = refusal(
    setCompute(context, id, { cpuMillicores: 2000, memoryMib: 256, sleepAfterIdleSeconds: 0 }),
  )
  assert.equal(code, 'vm_arriving')
})

test('a record whose guest has left is in the way, and the refusal says where the guest is', (t) => {
  const { context, id, create, store, accepted, refusal } = commandStage(t)
  accepted(create())
  const request = offered(id, recordOf())
  assert.equal(
    refusal(takeVm(context, id, request)).text,
    'this host has a VM web-1 already: delete it first',
  )
  const departure = { id: 'move-0', node: 'host-9', mode: 'live', stage: 'released', sinceMs: 1 } as const
  store.departures.set(id, departure as unknown as Departure, 1)
  assert.equal(
    refusal(takeVm(context, id, request)).text,
    'this host still has the record of web-1, whose guest has left for host-9: delete it first',
  )
})
