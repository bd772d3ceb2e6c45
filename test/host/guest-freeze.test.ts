/** A guest whose file systems are frozen as for a snapshot: its root disk, in its unit's sandbox. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { restoredOf } from '../fakes/machine.ts'
import { until } from '../contract/until.ts'
import { skip } from './in-lab.ts'
import { BOOT_MS, id, stageOf, userId } from './sandboxed-vm-stage.ts'
import type { SandboxStage } from './sandboxed-vm-stage.ts'

const never = new AbortController().signal

/** Freezes and thaws; in between, the guest lives and does not write. */
async function freezes({ monitor, ask }: SandboxStage): Promise<number> {
  const write = 'touch /root/$RANDOM </dev/null >/dev/null 2>&1 &'
  const beganAt = performance.now()
  assert.equal(await monitor.agent.freeze(id, never), 'frozen')
  const tookMs = performance.now() - beganAt
  assert.equal(await ask(`${write} sleep 1; kill -0 $! && echo waits`), 'waits')
  assert.equal(await monitor.agent.thaw(id, never), true)
  assert.equal(await ask('touch /root/$RANDOM && wait && echo written'), 'written')
  return tookMs
}

test('a guest freezes the disk that it runs on, even after a restore', { skip }, async (t) => {
  const stage = await stageOf(t)
  const { monitor, savedStates, units, start, said, ask } = stage
  await start()
  await until(said, (text) => text.includes('demo guest ready'), BOOT_MS)
  assert.match(await ask('grep " / " /proc/mounts'), /^\/dev\/\S+ \/ ext4 rw/m)
  await until(
    () => monitor.agent.freeze(id, never),
    (outcome) => outcome === 'frozen',
    BOOT_MS,
  )
  assert.equal(await monitor.agent.thaw(id, never), true)
  t.diagnostic(`freezing took ${(await freezes(stage)).toFixed(1)} ms`)

  await monitor.ensurePaused(id, never)
  await savedStates.ensureMemoryFile(id, userId)
  const saving = await monitor.save(restoredOf(id, savedStates.paths(id).writing), never)
  const compute = { cpuMillicores: 1000, memoryMib: 128 }
  await savedStates.publish(id, { savedAtMs: Date.now(), monitor: saving, compute }, never)
  await units.ensureStopped(id, never)
  await start({ restorePath: savedStates.paths(id).published })
  await monitor.ensureRestored(restoredOf(id, savedStates.paths(id).published), never)
  await savedStates.remove(id)
  await monitor.ensureRunning(id, never)
  t.diagnostic(`freezing took ${(await freezes(stage)).toFixed(1)} ms after a restore`)
})
