import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { checkout } from './paths.ts'
import { run } from './process.ts'

const dev = (args: readonly string[], env = process.env) =>
  run([process.execPath, path.join(checkout, 'tools/dev.ts'), ...args], { env })

test('./dev test refuses what would pass and test nothing', async () => {
  for (const labs of ['two', '0', '1.5']) {
    const { code, stderr } = await dev(['test', '--labs', labs, 'no-such-file'])
    assert.equal(code, 2)
    assert.match(stderr, new RegExp(`^dev test: --labs ${labs} is not a number of labs$`, 'm'))
  }
  const { code, stderr } = await dev(['test', 'no-such-file'])
  assert.equal(code, 2)
  assert.match(stderr, /^dev test: no test file has no-such-file in its path$/m)
})

test('./dev installs nothing that is there if it is started by a user without sbin in PATH', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'dev-'))
  t.after(() => rmSync(folder, { recursive: true }))
  writeFileSync(path.join(folder, 'id'), '#!/bin/sh\necho 1000\n', { mode: 0o755 })
  const env = { ...process.env, PATH: `${folder}:/usr/bin:/bin` }
  const { code, stderr } = await run([path.join(checkout, 'dev'), '--help'], { env })
  assert.equal(stderr, '')
  assert.equal(code, 0)
})

test('./dev lab down does not say of a name without a lab that its lab is gone', async (t) => {
  const cache = mkdtempSync(path.join(tmpdir(), 'dev-'))
  t.after(() => rmSync(cache, { recursive: true }))
  mkdirSync(path.join(cache, 'run/some'), { recursive: true })
  const down = (name: string) => dev(['lab', 'down', name], { ...process.env, VMHOSTD_CACHE: cache })
  assert.equal((await down('main')).stdout, 'there is no lab main\n')
  assert.equal((await down('some')).stdout, 'lab some is gone\n')
})
