import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { MachineSpec } from '../../src/core/monitor/machine-spec.ts'
import type { VmId } from '../../src/core/ids.ts'
import { FakeMonitor } from '../fakes/fake-monitor.ts'
import { LikeFirecracker } from '../fakes/like-firecracker.ts'
import { machineOf, restoredOf } from '../fakes/machine.ts'
import { DISK_MIB, monitorContract } from './monitor.contract.ts'
import type { MonitorStage } from './monitor-stage.ts'

const memoryFile = (id: VmId): string => `/pool/disks/${id}/save/memory`

type Differs = Pick<MonitorStage, 'countsDisk' | 'restoresAlone' | 'pausesWhenFull'>

function stageOf(monitor: FakeMonitor, differs: Differs): MonitorStage {
  return {
    monitor,
    ...differs,
    start: (id, { paused, diskLimits = {}, restorePath }) => {
      const restore = restorePath === undefined ? {} : { restorePath }
      const machine = machineOf(id, { startPaused: paused, diskLimits, ...restore })
      monitor.started(id, monitor.unitSpec(machine), DISK_MIB)
    },
    growFile: () => {},
    fillPool: (id) => monitor.fillPool(id),
    makeRoom: (id) => monitor.makeRoom(id),
    saveFile: memoryFile,
    guest: (id) => restoredOf(id, memoryFile(id)),
    memory: (id) => String(monitor.memoryOf(id).life),
    useDisk: (id) => {
      monitor.agents.add(id)
    },
    write: (id) => (monitor.frozen.has(id) ? 'waits' : 'written'),
    damage: (path) => monitor.files.damage(path),
    end: (id) => monitor.ended(id),
  }
}

monitorContract('fake monitor', async () =>
  stageOf(new FakeMonitor(), { countsDisk: true, restoresAlone: true, pausesWhenFull: true }),
)
monitorContract('fake monitor like Firecracker', async () =>
  stageOf(new LikeFirecracker(), { countsDisk: false, restoresAlone: false, pausesWhenFull: false }),
)

test('fake monitor: a planned fault happens once, before or after the effect', async () => {
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

test('fake monitor: a guest that continues from a state it had already left behind is recorded', async () => {
  const id = 'web-1' as VmId
  const { signal } = new AbortController()
  const monitor = new FakeMonitor()
  const exits: VmId[] = []
  monitor.onExit = (vm) => exits.push(vm)
  const path = '/pool/disks/web-1/saved/memory'
  const start = (changes: Partial<MachineSpec>): void =>
    monitor.started(id, monitor.unitSpec(machineOf(id, changes)), DISK_MIB)
  start({})
  await monitor.ensurePaused(id, signal)
  await monitor.save(restoredOf(id, path), signal)
  const saved = monitor.memoryOf(id)
  monitor.ended(id)
  for (const relived of [[], [id]]) {
    start({ restorePath: path })
    await monitor.ensureRestored(restoredOf(id, path), signal)
    assert.deepEqual(monitor.memoryOf(id), saved)
    await monitor.ensureRunning(id, signal)
    assert.deepEqual(monitor.relived, relived)
    monitor.ended(id)
  }
  start({})
  assert.notEqual(monitor.memoryOf(id).life, saved.life)
  assert.deepEqual(exits, [])
  monitor.ended(id)
  monitor.files.damage(path)
  start({ restorePath: path })
  await assert.rejects(monitor.ensureRestored(restoredOf(id, path), signal), { code: 'restore_failed' })
  assert.deepEqual(exits, [id])
})
