import assert from 'node:assert/strict'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { composed } from '../../../test/composed.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { valueIn } from '../../../test/metrics-text.ts'
import { recordingLog } from '../../../test/recording-log.ts'
import { StoreStage } from '../../../test/store-stage.ts'
import { limits } from '../../config/limits.ts'
import { openRecordsIn } from '../../store/database/schema-copies.ts'
import type { TestContext } from 'node:test'

/** A daemon whose inspector looks at the host. */
async function stage(t: TestContext) {
  const { store, directory } = new StoreStage(t)
  const clock = new FakeClock()
  const { log, lines } = recordingLog()
  const { inspector, api, metrics } = composed({ store, host: new FakeHost(clock, store.storeId), log })
  await inspector.start()
  t.after(() => inspector.stop())
  const path = join(directory, 'vmhostd.db')
  const nextLook = async (ms: number = limits.figuresEveryMs): Promise<void> => {
    clock.advance(ms)
    await inspector.look()
  }
  const logged = (message: string): number => lines.filter((line) => line.message.startsWith(message)).length
  const faultMetric = async (): Promise<number | undefined> => {
    clock.advance(limits.metricsAgeMsMax)
    return valueIn(await metrics.scrape(), 'vmhostd_host_fault', { code: 'state_unwritable' })
  }
  return { directory, path, nextLook, logged, faultMetric, faults: () => api.hostFaults() }
}

test('records that are removed are a fault of the host within one look, and are copied once', async (t) => {
  const { directory, path, nextLook, logged, faultMetric, faults } = await stage(t)
  assert.deepEqual([faults(), await faultMetric()], [[], 0])
  rmSync(path)
  await nextLook()
  const [fault] = faults()
  assert.equal(fault?.code, 'state_unwritable')
  assert.match(fault?.message ?? '', /: vmhostd\.db was removed or replaced while the daemon runs/)
  assert.equal(await faultMetric(), 1)
  for (const _ of [1, 2, 3]) await nextLook(limits.openRecordsCopyRetryMs)
  assert.equal(openRecordsIn(directory).length, 1)
  assert.equal(logged('records lost under the daemon'), 1)
  assert.equal(logged('copy of the records made'), 1)
})

test('records that are back at their place are no fault, and their copy is removed', async (t) => {
  const { directory, path, nextLook, logged, faultMetric, faults } = await stage(t)
  renameSync(path, `${path}.away`)
  await nextLook()
  const [copy] = openRecordsIn(directory)
  renameSync(`${path}.away`, path)
  await nextLook()
  assert.deepEqual([faults(), await faultMetric()], [[], 0])
  assert.ok(copy !== undefined && !existsSync(copy))
  assert.equal(logged('records at their place again'), 1)
})

test('a copy that fails is tried again after a pause', async (t) => {
  const { directory, path, nextLook, logged } = await stage(t)
  const copies = join(directory, 'copies')
  writeFileSync(copies, 'not a directory')
  rmSync(path)
  await nextLook()
  await nextLook()
  assert.equal(logged('no copy of the records'), 1)
  rmSync(copies)
  mkdirSync(copies)
  await nextLook(limits.openRecordsCopyRetryMs)
  assert.equal(openRecordsIn(directory).length, 1)
})
