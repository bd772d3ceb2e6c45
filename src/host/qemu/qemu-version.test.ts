import assert from 'node:assert/strict'
import { test } from 'node:test'
import { greetedVersion, qemuVersion } from './qemu-version.ts'

for (const [what, program] of [
  ['is not there', '/usr/bin/no-such-qemu'],
  ['fails', '/bin/false'],
  ['is something else', '/bin/true'],
]) {
  test(`a monitor program that ${what} is monitor_missing`, async () => {
    await assert.rejects(qemuVersion(program ?? ''), { code: 'monitor_missing' })
  })
}

test('a greeting has the version in the form of the program itself', () => {
  const greeting = { version: { qemu: { micro: 13, minor: 0, major: 10 }, package: 'Debian 1:10.0.13' } }
  assert.equal(greetedVersion(greeting), '10.0.13')
  for (const other of [undefined, {}, { version: { qemu: { major: 10 } } }]) {
    assert.equal(greetedVersion(other), undefined)
  }
})
