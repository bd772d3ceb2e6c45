/** The file system of the monitors' runtime directories: what a monitor that its guest has taken over can fill. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sh } from '../../lab/inside/shell.ts'
import { limits } from '../../src/config/limits.ts'
import { ensureRuntimeRoom } from '../../src/host/systemd/runtime-directories.ts'
import { MIB } from '../../src/lib/byte-units.ts'
import { atEnd } from '../contract/at-end.ts'
import { recordingLog } from '../recording-log.ts'
import type { TestContext } from 'node:test'

/** A runtime directory of a daemon, with the directory of its monitors. */
function directories(t: TestContext) {
  const parent = mkdtempSync('/run/runtime-room-')
  const monitors = join(parent, 'vm')
  const isApart = (): boolean => statSync(monitors).dev !== statSync(parent).dev
  atEnd(t, async () => {
    if (isApart()) await sh('umount', monitors)
    rmSync(parent, { recursive: true })
  })
  return { parent, monitors, isApart, ...recordingLog() }
}

test('a monitor fills the small file system of the monitors, and not /run', async (t) => {
  const { parent, monitors, isApart, log, lines } = directories(t)
  ensureRuntimeRoom(monitors, log)
  assert.ok(isApart())
  assert.equal(statSync(monitors).mode & 0o7777, 0o755)
  const free = (): number => statfsSync(parent).bavail * statfsSync(parent).bsize
  const before = free()
  const full = Buffer.alloc((limits.monitorRuntimeMib + 1) * MIB)
  assert.throws(() => writeFileSync(join(monitors, 'fill'), full), { code: 'ENOSPC' })
  assert.ok(before - free() < MIB, 'another process may use /run meanwhile')
  assert.equal(statfsSync(monitors).files, limits.monitorRuntimeFilesMax)
  assert.deepEqual(lines, [])
})

test('the next daemon finds it, and what is in it stays', (t) => {
  const { monitors, log } = directories(t)
  ensureRuntimeRoom(monitors, log)
  writeFileSync(join(monitors, 'qmp.sock'), '')
  const { dev } = statSync(monitors)
  ensureRuntimeRoom(monitors, log)
  assert.equal(statSync(monitors).dev, dev)
  assert.ok(statSync(join(monitors, 'qmp.sock')).isFile())
})

test('sockets of monitors that run already are not hidden', (t) => {
  const { monitors, isApart, log, lines } = directories(t)
  mkdirSync(join(monitors, 'web-1'), { recursive: true })
  ensureRuntimeRoom(monitors, log)
  assert.ok(!isApart())
  assert.deepEqual(
    lines.map(({ level, message }) => [level, message]),
    [['info', 'monitors can fill the file system of their sockets until the host boots again']],
  )
})
