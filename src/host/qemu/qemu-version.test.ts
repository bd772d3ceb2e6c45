import assert from 'node:assert/strict'
import { test } from 'node:test'
import { qemuVersion } from './qemu-version.ts'

for (const [what, program] of [
  ['is not there', '/usr/bin/no-such-qemu'],
  ['fails', '/bin/false'],
  ['is something else', '/bin/true'],
]) {
  test(`a monitor program that ${what} is monitor_missing`, async () => {
    await assert.rejects(qemuVersion(program ?? ''), { code: 'monitor_missing' })
  })
}
