import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { ownProcess } from './own-process.ts'

const OWN_PROCESS = new URL('own-process.ts', import.meta.url).href

test('the open files of the process are counted', () => {
  const before = ownProcess.openFiles()
  assert.ok(before !== undefined)
  const fd = openSync('/dev/null', 'r')
  assert.equal(ownProcess.openFiles(), before + 1)
  closeSync(fd)
})

test('a process that can open no further file has as many as its limit', async () => {
  const script = `
    import { openSync } from 'node:fs'
    import { ownProcess } from '${OWN_PROCESS}'
    try { for (;;) openSync('/dev/null') } catch {}
    process.stdout.write(String(ownProcess.openFiles()), () => process.exit())`
  const node = `exec '${process.execPath}' --no-warnings --input-type=module --eval "$0"`
  const { stdout } = await promisify(execFile)('sh', ['-c', `ulimit -n 100; ${node}`, script])
  assert.equal(stdout, '100')
})
