import assert from 'node:assert/strict'
import { test } from 'node:test'
import { composed } from '../../../test/composed.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeFigures } from '../../../test/fakes/fake-figures.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { unitSpecOf } from '../../../test/fakes/unit-spec.ts'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'

function stage(t: TestContext) {
  const records = new StoreStage(t)
  const { store } = records
  const host = new FakeHost(new FakeClock(), store.storeId)
  const figures = new FakeFigures()
  const { api } = composed({ store, host, figures })
  return { host, figures, records, report: { take: api.hostView } }
}

const web = 'web-1' as VmId
const never = new AbortController().signal

test('any number of questions at once costs two looks', async (t) => {
  const { host, report, figures } = stage(t)
  await Promise.all(Array.from({ length: 100 }, () => report.take()))
  assert.deepEqual(figures.looks, { memory: 2, cpus: 2, pool: 2, addresses: 2 })
  // In addition, the inspector learns the sizes of the images at its first look.
  assert.equal(host.storage.imageListings, 3)
})

test('a report requested after a change shows the change, though a look was under way', async (t) => {
  const { report, figures } = stage(t)
  const end = figures.holdNext('memory')
  const before = report.take()
  await new Promise((resolve) => setImmediate(resolve))
  figures.poolMib = { totalMib: 200_000, availableMib: 190_000 }
  const after = report.take()
  end()
  assert.equal((await before).pool.totalMib, 100_000)
  assert.equal((await after).pool.totalMib, 200_000)
})

test('a report shows each VM as it is, also after an earlier report', async (t) => {
  const { report, records } = stage(t)
  const shown = async (): Promise<readonly string[]> =>
    (await report.take()).vms.map(({ id, state }) => `${id} ${state}`)
  assert.deepEqual(await shown(), [])
  const id = records.insertVm(web, { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
  assert.deepEqual(await shown(), ['web-1 pending'])
  records.store.vms.recordProgress(id, { observed: { state: 'starting', sinceMs: 2000 }, nowMs: 2000 })
  assert.deepEqual(await shown(), ['web-1 starting'])
})

test('a VM that stops while consoles are counted is not called unprotected', async (t) => {
  const { report, host } = stage(t)
  await host.consoles.ensureMaster(web)
  await host.fakeUnits.ensureStarted(web, unitSpecOf(web), never)
  host.consoles.stored = async () => {
    await host.fakeUnits.ensureStopped(web, never)
    await host.consoles.removeMaster(web)
    return []
  }
  const { consoles } = await report.take()
  assert.deepEqual(consoles, {
    runningUnits: 0,
    protected: 0,
    unprotected: [],
    descriptorStoreAvailable: true,
    placesTotal: 1000,
    placesFree: 1000,
  })
})
