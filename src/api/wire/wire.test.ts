import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { test } from 'node:test'
import { createFromWire } from './vm-from-wire.ts'
import { cursorAfter, parseCursor, urlComplaints } from './values.ts'
import { exampleCreateVm } from './examples.ts'
import { errorToWire } from './vm-to-wire.ts'
import type { Fault, PartialFault } from '../../core/vm/record.ts'
import type { CreateVmWire } from './requests.ts'

test('a create request becomes the domain value with every optional member absent where it was absent', () => {
  const { network: _network, user_data: _userData, ssh_authorized_keys: _keys, ...required } = exampleCreateVm
  const created = createFromWire(required as CreateVmWire)
  assert.ok(created.ok)
  assert.deepEqual(Object.keys(created.value).toSorted(), [
    'compute',
    'disk',
    'image',
    'metadata',
    'power',
    'sshAuthorizedKeys',
  ])
  assert.deepEqual(created.value.compute, { cpuMillicores: 1500, memoryMib: 512, sleepAfterIdleSeconds: 0 })
  assert.deepEqual(
    created.value.image.images.map(({ role }) => role),
    ['rootfs', 'kernel'],
  )
})

test('beyond the border a URL can be revealed, but not printed', () => {
  const created = createFromWire(exampleCreateVm as CreateVmWire)
  assert.ok(created.ok)
  assert.equal(created.value.image.images[0]?.source.url.reveal(), exampleCreateVm.image.rootfs.url)
  for (const text of [JSON.stringify(created), inspect(created, { depth: 9 })])
    assert.ok(!text.includes('example.net/root'))
})

test('the error of a VM names every partial fault but the one that is the fault itself', () => {
  const fault = {
    ...{ code: 'firewall_failed', step: 'network.inspect', message: 'netlink does not answer' },
    ...{ generation: 1, sinceMs: 1, attempt: 1, nextAttemptAtMs: 1 },
  } as Fault
  const partial = (step: string, message: string): PartialFault => ({
    code: 'firewall_failed',
    step,
    message,
  })
  const partialFaults = [
    partial(fault.step, fault.message),
    partial(fault.step, 'the table inet vmhostd is altered'),
    partial('network.ensure-firewall', fault.message),
  ]
  assert.equal(
    errorToWire({ fault, partialFaults }),
    'network.inspect: netlink does not answer; network.inspect: the table inet vmhostd is altered; ' +
      'network.ensure-firewall: netlink does not answer',
  )
})

test('a cursor leads back to its id and nothing else does', () => {
  assert.equal(parseCursor('vms', cursorAfter('vms', 'web-1')), 'web-1')
  const digest = 'a'.repeat(64)
  assert.equal(parseCursor('images', cursorAfter('images', digest)), digest)
  assert.equal(parseCursor('images', cursorAfter('images', 'web-1')), undefined)
  assert.equal(parseCursor('events', cursorAfter('events', '1893456000000001')), '1893456000000001')
  for (const id of ['web-1', '1e3', '9'.repeat(17)])
    assert.equal(parseCursor('events', cursorAfter('events', id)), undefined, id)
  for (const text of [
    '',
    'd2ViLTE',
    Buffer.from('vms:WEB').toString('base64url'),
    Buffer.from('vms:').toString('base64url'),
    cursorAfter('snapshots', 'web-1'),
  ]) {
    assert.equal(parseCursor('vms', text), undefined)
  }
})

test('a URL carries neither a user name nor a password, also not one of them alone', () => {
  for (const user of ['a:b', 'a', ':b'])
    assert.match(
      urlComplaints('/url', `https://${user}@store.example/part`)[0]?.detail ?? '',
      /user name or password/,
    )
  assert.deepEqual(urlComplaints('/url', 'https://store.example/part'), [])
})
