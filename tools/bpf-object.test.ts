import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { objectKey } from './bpf-object.ts'

test('another version of the compiler or of a header has another key in the cache', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'bpf-object-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const clang = path.join(folder, 'clang')
  const keyWith = (version: string, headers: string): Promise<string> => {
    const says = `#!/bin/sh\ncase $1 in --version) echo '${version}' ;; *) echo ${headers} ;; esac\n`
    writeFileSync(clang, says, { mode: 0o755 })
    return objectKey(clang)
  }
  const key = await keyWith('19.1.7 (3)', 'one')
  assert.equal(await keyWith('19.1.7 (3)', 'one'), key)
  assert.notEqual(await keyWith('19.1.7 (4)', 'one'), key)
  assert.notEqual(await keyWith('19.1.7 (3)', 'two'), key)
})
