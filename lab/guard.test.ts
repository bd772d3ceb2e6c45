import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

const BOUND_MS = 20_000

test('what a lab left is removed when its runner is killed', async (t) => {
  const cache = mkdtempSync(path.join(tmpdir(), 'guard-'))
  t.after(() => rmSync(cache, { recursive: true, force: true }))
  const left = path.join(cache, 'run', 'guarded')
  mkdirSync(left, { recursive: true })
  const guard = path.join(import.meta.dirname, 'guard.ts')
  const source = `import { guardLab } from ${JSON.stringify(guard)}; guardLab('guarded'); console.log('guarded'); setInterval(() => {}, 1000)`
  const runner = spawn(
    process.execPath,
    ['--no-warnings', '--input-type=module-typescript', '--eval', source],
    {
      env: { ...process.env, VMHOSTD_CACHE: cache },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  await once(runner.stdout, 'data')
  assert.ok(existsSync(left))
  runner.kill('SIGKILL')
  const deadline = performance.now() + BOUND_MS
  while (existsSync(left) && performance.now() < deadline) await sleep(20)
  assert.ok(!existsSync(left), 'the guard has not ended the lab')
})
