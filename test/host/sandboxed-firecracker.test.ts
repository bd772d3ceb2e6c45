import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import type { MachineSpec } from '../../src/core/monitor/machine-spec.ts'
import { FirecrackerMonitor } from '../../src/host/firecracker/firecracker-monitor.ts'
import { poolPaths } from '../../src/host/pool/pool-paths.ts'
import { silentLog } from '../../src/log/log.ts'
import { atEnd } from '../contract/at-end.ts'
import { until } from '../contract/until.ts'
import { restoredOf } from '../fakes/machine.ts'
import { skip as skipOutsideLab } from './in-lab.ts'
import { id, stageOf, userId } from './sandboxed-vm-stage.ts'
import { firecracker, skipWithoutFirecracker } from './with-firecracker.ts'

const never = new AbortController().signal
const skip = skipOutsideLab === false ? skipWithoutFirecracker : skipOutsideLab

test('a guest of Firecracker lives, sleeps and wakes in the sandbox of its unit', { skip }, async (t) => {
  const { units, savedStates, mountPoint, start, said } = await stageOf(t)
  const program = firecracker ?? assert.fail('there is no Firecracker')
  const monitor = new FirecrackerMonitor({
    program,
    runDirectory: '/run/vmhostd-test/vm',
    diskPath: poolPaths(join(mountPoint, 'pool')).disk,
    log: silentLog,
  })
  atEnd(t, () => monitor.close())
  const startFirecracker = (changes: Partial<MachineSpec>): Promise<MachineSpec> =>
    start({ kernelPath: '/srv/guest/bare.elf', ...changes }, (_spec, machine) => monitor.unitSpec(machine))
  const machine = await startFirecracker({})
  await until(said, (text) => text.includes('bare guest ready'), 20_000)
  await monitor.ensurePaused(id, never)
  await savedStates.ensureMemoryFile(id, userId)
  const saving = await monitor.save(restoredOf(id, savedStates.paths(id).writing), never)
  const { cpuMillicores, memoryMib } = machine.compute
  const terms = { savedAtMs: Date.now(), monitor: saving, compute: { cpuMillicores, memoryMib } }
  await savedStates.publish(id, terms, never)
  await units.ensureStopped(id, never)
  const state = await savedStates.inspect(id, await monitor.installed())
  assert.equal(state.kind, 'present')

  const path = savedStates.paths(id).published
  await startFirecracker({ restorePath: path })
  await monitor.ensureRestored({ ...restoredOf(id, path), userId }, never)
  await savedStates.remove(id)
  await monitor.ensureRunning(id, never)
  assert.equal(await monitor.agent.freeze(id, never), 'frozen')
  assert.equal(await monitor.agent.thaw(id, never), true)
  assert.ok(!said().includes('Firecracker'), 'its log is not on the console')
})
