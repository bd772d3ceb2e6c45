import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { run } from '../tools/process.ts'
import { mmdebstrap } from './mmdebstrap.ts'

test('a tree whose build is killed leaves nothing mounted', async (t) => {
  if ((await run(['unshare', '--mount', 'true'])).code !== 0) return t.skip('only root can mount')
  const folder = mkdtempSync(path.join(tmpdir(), 'mmdebstrap-'))
  const { PATH } = process.env
  process.env['PATH'] = `${folder}:${PATH}`
  t.after(async () => {
    process.env['PATH'] = PATH
    await run(['umount', folder])
    rmSync(folder, { recursive: true })
  })
  const stand = `#!/bin/sh\nmount -t tmpfs -o size=64k tmpfs "$2" && echo mounted && kill -KILL $$\n`
  writeFileSync(path.join(folder, 'mmdebstrap'), stand, { mode: 0o755 })
  const said: string[] = []
  const log = {
    run: async (argv: readonly string[], options = {}) => {
      const { stdout, code } = await run(argv, options)
      said.push(`${stdout.trim()} ${code}`)
      return stdout
    },
  }
  await mmdebstrap([folder], log)
  assert.deepEqual(said, ['mounted 137'])
  assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(folder))
})
