import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../config/config.ts'
import { silentLog } from '../log/log.ts'
import { buildMonitors } from './build-monitors.ts'

test('a Firecracker that is too old is not offered, with its version as the reason, until a newer one is seen', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-monitors-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const program = join(directory, 'firecracker')
  const install = (version: string): void => {
    rmSync(program, { force: true })
    const answers = `#!/bin/sh\n[ "$1" = --version ] && echo Firecracker v${version} || echo v8.0.0\n`
    writeFileSync(program, answers, { mode: 0o755 })
  }
  install('1.14.0')
  const text = `[monitor]\nfirecracker_program = "${program}"\n`
  const config = parseConfig(text, { path: 'config.toml', hostname: 'host-1' })
  const { offers, monitors } = await buildMonitors(config, silentLog)
  const { isOffered, because } = offers().kinds.firecracker
  assert.equal(isOffered, false)
  assert.match(because, /it is 1\.14\.0, and 1\.16 is the first that can be used/)
  install('1.16.1')
  await monitors.firecracker.installed()
  assert.doesNotMatch(offers().kinds.firecracker.because, /1\.14/)
})
