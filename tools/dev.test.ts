import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { checkout } from './paths.ts'
import { run } from './process.ts'

const dev = (...args: string[]) => run([process.execPath, path.join(checkout, 'tools/dev.ts'), ...args])

test('./dev test refuses what would pass and test nothing', async () => {
  for (const labs of ['two', '0', '1.5']) {
    const { code, stderr } = await dev('test', '--labs', labs, 'no-such-file')
    assert.equal(code, 2)
    assert.match(stderr, new RegExp(`^dev test: --labs ${labs} is not a number of labs$`, 'm'))
  }
  const { code, stderr } = await dev('test', 'no-such-file')
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
