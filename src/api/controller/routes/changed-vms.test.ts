import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lockStore } from '../../../../test/locked-store.ts'
import { StoreStage, sha256Of } from '../../../../test/store-stage.ts'
import { changedVms } from './changed-vms.ts'
import type { ApiDependencies } from '../dependencies.ts'

test('a reader that has seen progress which was lost with the daemon must list again', async (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
  const changed = (after: number) => {
    const dependencies = { context: () => ({ store: stage.store }) } as unknown as ApiDependencies
    const { signal } = new AbortController()
    return changedVms(dependencies, { after, limit: 10, waitMs: 0, signal })
  }
  const show = (state: 'running' | 'failed'): void =>
    void stage.store.vms.recordProgress(id, { observed: { state, sinceMs: 2 }, nowMs: 2 })
  show('running')
  const before = await changed(0)
  const unlock = lockStore(stage.directory)
  show('failed')
  const seen = await changed(before.revision ?? 0)
  assert.deepEqual(
    seen.items.map(({ observed }) => observed.state),
    ['failed'],
  )
  stage.reopen()
  await unlock()
  assert.equal(stage.store.vms.get(id)?.observed.state, 'running')
  await assert.rejects(changed(seen.revision ?? 0), /is not known any more/)
  assert.deepEqual((await changed(before.revision ?? 0)).items, [], 'what is on the disk is still known')
})
