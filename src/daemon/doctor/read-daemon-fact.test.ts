import assert from 'node:assert/strict'
import { copyFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { StoreStage } from '../../../test/store-stage.ts'
import { displacedRecords, readDaemonFact } from './read-daemon-fact.ts'
import type { ServiceUnit } from '../../host/systemd/own-unit.ts'

/** A unit whose main process is this one. */
const unitOf = (properties: Readonly<Record<string, unknown>>): ServiceUnit => ({
  name: 'vmhostd.service',
  properties: async (_iface, ...names) =>
    names.map((name) => ({ MainPID: process.pid, ...properties })[name]),
})

test('records that are not the ones that the daemon has open are seen from another process', (t) => {
  const { directory } = new StoreStage(t)
  const path = join(directory, 'vmhostd.db')
  const displaced = (): string | undefined => displacedRecords(process.pid, path)
  assert.equal(displaced(), undefined)
  renameSync(path, `${path}.away`)
  assert.equal(displaced(), 'vmhostd.db')
  copyFileSync(`${path}.away`, path)
  assert.equal(displaced(), 'vmhostd.db')
  renameSync(`${path}.away`, path)
  assert.equal(displaced(), undefined)
  rmSync(`${path}-wal`)
  assert.equal(displaced(), 'vmhostd.db-wal')
})

test('the copy that the daemon made is named, and nothing is said of a daemon that is starting', async (t) => {
  const { directory, store } = new StoreStage(t)
  rmSync(join(directory, 'vmhostd.db'))
  const name = 'vmhostd.db'
  const read = (ActiveState: string) => readDaemonFact(unitOf({ ActiveState }), directory)
  const running = { state: 'running', startsAtBoot: true }
  assert.deepEqual(await read('active'), { ...running, displaced: { name } })
  const copy = store.keepOpenRecords(0)
  assert.deepEqual(await read('active'), { ...running, displaced: { name, copy } })
  assert.deepEqual(await read('activating'), { ...running, state: 'starting' })
})

test('a daemon that is stopped, fails, or does not start at a boot is seen', async () => {
  const read = (ActiveState: string, SubState = '', UnitFileState = 'enabled') =>
    readDaemonFact(unitOf({ ActiveState, SubState, UnitFileState }), '/nonexistent')
  assert.deepEqual(await read('inactive', 'dead'), { state: 'stopped', startsAtBoot: true })
  assert.deepEqual(await read('failed', 'failed'), { state: 'failed', startsAtBoot: true })
  assert.deepEqual(await read('activating', 'auto-restart'), { state: 'failed', startsAtBoot: true })
  assert.deepEqual(await read('activating', 'start'), { state: 'starting', startsAtBoot: true })
  for (const disabled of ['disabled', 'enabled-runtime'])
    assert.equal((await read('inactive', 'dead', disabled)).startsAtBoot, false)
})
