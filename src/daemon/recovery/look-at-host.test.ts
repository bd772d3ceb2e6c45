import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleepStage } from '../../../test/sleep-stage.ts'
import { lookAtVm } from './look-at-host.ts'

test('a look finds a guest that runs, one that sleeps, and whose they are', async (t) => {
  const { host, store, vm, fallAsleep } = await sleepStage(t)
  const look = async (storeId: string) => {
    const { unit, disk, isSaved } = await lookAtVm(host, vm(), storeId)
    return [unit.kind, disk.kind, isSaved]
  }
  assert.deepEqual(await look(store.storeId), ['active', 'present', false])
  assert.deepEqual(await look('other'), ['foreign', 'foreign', false])
  await fallAsleep()
  assert.deepEqual(await look(store.storeId), ['absent', 'present', true])
})
