import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { VmId } from '../../src/core/vm/ids.ts'
import { FakeMonitor } from '../fakes/fake-monitor.ts'
import { machineOf } from '../fakes/machine.ts'
import { DISK_MIB, monitorContract } from './monitor.contract.ts'

monitorContract('fake monitor', async () => {
  const monitor = new FakeMonitor()
  return {
    monitor,
    start: (id, { paused, diskLimits = {} }) => {
      const machine = machineOf(id, { startPaused: paused, diskLimits })
      monitor.started(id, monitor.unitSpec(machine), DISK_MIB)
    },
    growFile: () => {},
    fillPool: (id) => monitor.fillPool(id),
    makeRoom: (id) => monitor.makeRoom(id),
    end: (id) => monitor.ended(id),
  }
})

test('fake monitor: a planned fault is met once, before or after the effect', async () => {
  const id = 'web-1' as VmId
  const { signal } = new AbortController()
  const fault = new HostFault('monitor_refused', 'pausing VM web-1')
  const monitor = new FakeMonitor()
  const disk = { sizeMib: 64 }
  monitor.become(id, { kind: 'running', disk })
  monitor.failNext('ensurePaused', fault, 'before')
  await assert.rejects(monitor.ensurePaused(id, signal), fault)
  assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
  monitor.failNext('ensurePaused', fault, 'after')
  await assert.rejects(monitor.ensurePaused(id, signal), fault)
  assert.deepEqual(await monitor.inspect(id), { kind: 'paused', disk })
})
