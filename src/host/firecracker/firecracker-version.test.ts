import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isTooOld, versionsIn } from './firecracker-version.ts'

test('versions are read beside what the program logs', () => {
  const logged =
    '\n2026-01-01T00:00:00.000000000 [anonymous-instance:main] Firecracker exiting successfully. exit_code=0\n'
  assert.deepEqual(versionsIn(`Firecracker v1.16.1\n${logged}`, `v10.0.0${logged}`), {
    version: '1.16.1',
    format: '10.0.0',
  })
  assert.equal(versionsIn('QEMU emulator version 10.0.2\n', 'v10.0.0\n'), undefined)
})

test('versions that cannot set the clock of a restored guest are too old', () => {
  for (const version of ['0.25.0', '1.9.0', '1.15.1']) assert.ok(isTooOld(version), version)
  for (const version of ['1.16.0', '1.16.1', '1.20.0', '2.0.0']) assert.ok(!isTooOld(version), version)
})
