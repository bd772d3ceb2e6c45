import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { FakeTaps } from '../fakes/fake-taps.ts'
import { tapSpec } from './taps-stage.ts'
import { tapsContract } from './taps.contract.ts'
import type { VmId } from '../../src/core/ids.ts'

tapsContract('fake taps', () => {
  const monitors = new Map<VmId, number>()
  const taps = new FakeTaps({ storeId: 'store-1', monitorOf: (id) => monitors.get(id) })
  const { devices } = taps
  let pids = 100
  return {
    taps,
    storeId: 'store-1',
    others: new FakeTaps({ storeId: 'store-2', devices }),
    occupy: (device) => {
      devices.set(device, { kind: 'other' })
    },
    exists: (device) => devices.has(device),
    delete: (device) => {
      devices.delete(device)
    },
    rename: (device, name) => {
      const found = devices.get(device)
      devices.delete(device)
      if (found !== undefined) devices.set(name, found)
    },
    takeDown: (device) => taps.alter(device, { up: false, routes: [] }),
    changeSetting: (device, name, value) => {
      const found = taps.devices.get(device)
      const settings = found?.kind === 'tap' ? found.facts.settings : {}
      taps.alter(device, { settings: { ...settings, [name]: value } })
    },
    bridge: (device) => taps.alter(device, { memberOf: 'br0' }),
    flushNeighbours: (device) => taps.alter(device, { neighbours: [] }),
    removeLimits: (device, part) => {
      const found = devices.get(device)
      const before = found?.kind === 'tap' ? found.facts.bandwidth : {}
      taps.alter(device, { bandwidth: part === undefined ? {} : { ...before, transmitMbitPerSecond: 0 } })
    },
    startMonitor: ({ device, vmId }) => {
      monitors.set(vmId, ++pids)
      // The kernel reports that it takes the device.
      taps.alter(device, {})
      return pids
    },
    settled: () => {},
    changeByMonitor: ({ device }, change) =>
      taps.alter(device, { ...change, ...(change.macAddress === undefined ? {} : { neighbours: [] }) }),
    endMonitor: ({ vmId }) => {
      monitors.delete(vmId)
    },
  }
})

test('fake taps: a planned fault happens once, before or after the effect', async () => {
  const { device, vmId } = tapSpec
  const taps = new FakeTaps()
  const fault = new HostFault('network_failed', `setting up tap ${device}`)
  taps.failNext('ensure', fault, 'before')
  await assert.rejects(taps.ensure(tapSpec), fault)
  assert.equal((await taps.inspect(device, vmId)).kind, 'absent')
  taps.failNext('ensure', fault, 'after')
  await assert.rejects(taps.ensure(tapSpec), fault)
  assert.equal((await taps.inspect(device, vmId)).kind, 'present')
})
