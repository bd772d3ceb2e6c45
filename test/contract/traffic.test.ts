import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { FakeClock } from '../fakes/fake-clock.ts'
import { FakeDevices } from '../fakes/fake-taps.ts'
import { FakeTraffic } from '../fakes/fake-traffic.ts'
import { trafficContract } from './traffic.contract.ts'
import { guest } from './traffic-stage.ts'

/** A datagram for the guest of the contract, as its driver's stage sends it. */
const flow = {
  protocol: 'udp',
  source: '192.0.2.1',
  sourcePort: 40_000,
  destination: '192.0.2.10',
  destinationPort: 7,
}

trafficContract('fake traffic', () => {
  const clock = new FakeClock()
  const devices = new FakeDevices()
  const traffic = new FakeTraffic({ clock, devices })
  return {
    daemon: () => {
      traffic.forgetWatchers()
      return traffic
    },
    makeDevice: ({ device }) => {
      devices.set(device, { kind: 'other' })
    },
    deleteDevice: ({ device }) => {
      devices.delete(device)
    },
    attach: () => {},
    send: ({ device }, name) => {
      traffic.receive(device, { name, flow })
    },
    sendIgnored: ({ device }, name) => {
      traffic.receive(device, { name, counts: false })
    },
    given: ({ userId }) => traffic.given(userId),
    pass: (ms) => clock.advance(ms),
  }
})

const fault = new HostFault('traffic_failed', `giving the guest of ${guest.device} its frames`)

test('fake traffic: a planned fault happens once, before or after the effect', async () => {
  const traffic = new FakeTraffic({ clock: new FakeClock() })
  traffic.failNext('ensureHeld', fault, 'before')
  await assert.rejects(traffic.ensureHeld(guest), fault)
  assert.equal((await traffic.inspect(guest)).kind, 'unwatched')
  traffic.failNext('ensureHeld', fault, 'after')
  await assert.rejects(traffic.ensureHeld(guest), fault)
  assert.equal((await traffic.inspect(guest)).kind, 'watched')
})

test('fake traffic: a packet without a reader is lost, and held packets are lost when the host restarts', async () => {
  const traffic = new FakeTraffic({ clock: new FakeClock(), takes: () => false })
  assert.equal(traffic.receive(guest.device, { name: 'unwatched' }), 'lost')
  await traffic.ensureWatched(guest)
  assert.equal(traffic.receive(guest.device, { name: 'flowing' }), 'lost')
  await traffic.ensureHeld(guest)
  assert.equal(traffic.receive(guest.device, { name: 'held' }), 'held')
  traffic.reboot()
  assert.deepEqual(traffic.lost, ['flowing', 'held'])
  assert.equal((await traffic.inspect(guest)).kind, 'unwatched')
})
