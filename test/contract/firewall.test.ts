import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { emptyTable, FakeFirewall } from '../fakes/fake-firewall.ts'
import { firewallContract, guest } from './firewall.contract.ts'

const fault = new HostFault('firewall_failed', 'writing the table inet vmhostd')

firewallContract('fake firewall', () => {
  const table = emptyTable()
  const daemons: FakeFirewall[] = []
  const last = (): FakeFirewall => daemons.at(-1) ?? assert.fail('no daemon yet')
  return {
    daemon: (guests) => {
      daemons.push(new FakeFirewall({ guests, table }))
      return last()
    },
    stop: () => last().stop(),
    letThrough: () => [...table.guests.keys()].toSorted((a, b) => (a < b ? -1 : 1)),
    flush: () => last().flush(),
    alter: () => last().alter(),
    drop: (device, drops) => last().drop(device, drops),
    touchOthers: () => {},
    breakChanges: () => {
      last().failNext('ensureGuest', fault)
      return () => {}
    },
  }
})

test('fake firewall: a planned fault happens once, before or after the effect', async () => {
  const firewall = new FakeFirewall()
  firewall.failNext('ensureGuest', fault, 'before')
  await assert.rejects(firewall.ensureGuest(guest), fault)
  assert.deepEqual(await firewall.inspect(guest.device), { kind: 'absent', rule: guest })
  firewall.failNext('ensureGuest', fault, 'after')
  await assert.rejects(firewall.ensureGuest(guest), fault)
  assert.deepEqual(await firewall.inspect(guest.device), { kind: 'intact', rule: guest })
})
