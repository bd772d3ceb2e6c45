import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'

const a = sha256Of('a')
const b = sha256Of('b')
const c = sha256Of('c')

test('an image is used by every VM that is made of it, in whatever role, and by each once', (t) => {
  const stage = new StoreStage(t)
  assert.deepEqual([...stage.store.images.uses()], [])
  stage.insertVm('web-1', { rootfsSha256: a, kernelSha256: b, initrdSha256: b }, 1000)
  stage.insertVm('web-2', { rootfsSha256: c, kernelSha256: a }, 2000)
  assert.deepEqual(
    stage.store.images.uses(),
    new Map([
      [a, { count: 2, lastUsedAtMs: 2000 }],
      [b, { count: 1, lastUsedAtMs: 1000 }],
      [c, { count: 1, lastUsedAtMs: 2000 }],
    ]),
  )
})

test('the first VMs that are made of an image are named, those that use it twice once', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-3', { rootfsSha256: a, kernelSha256: b })
  stage.insertVm('web-1', { rootfsSha256: c, kernelSha256: a, initrdSha256: a })
  stage.insertVm('web-2', { rootfsSha256: a, kernelSha256: b })
  stage.insertVm('other-1', { rootfsSha256: b, kernelSha256: b })
  assert.deepEqual(stage.store.images.users(a, 2), ['web-1', 'web-2'])
  assert.deepEqual(stage.store.images.users(c, 2), ['web-1'])
  assert.deepEqual(stage.store.images.users(sha256Of('d'), 2), [])
})

test('an image was last used when the last VM that is made of it was forgotten', (t) => {
  const stage = new StoreStage(t)
  const [first, second] = ['web-1', 'web-2'].map((id) =>
    stage.insertVm(id, { rootfsSha256: a, kernelSha256: b }),
  )
  assert.ok(first !== undefined && second !== undefined)
  stage.removeVm(first, 5000)
  assert.deepEqual(stage.store.images.uses().get(a), { count: 1, lastUsedAtMs: 5000 })
  stage.removeVm(second, 9000)
  stage.reopen()
  assert.deepEqual(stage.store.images.uses().get(a), { count: 0, lastUsedAtMs: 9000 })
})

test('a VM under deletion uses its images until it is forgotten', (t) => {
  const stage = new StoreStage(t)
  const vm = stage.insertVm('web-1', { rootfsSha256: a, kernelSha256: b })
  stage.store.vms.changeDesired(vm, { deleting: true, operationId: 'op-2' as never, nowMs: 2000 })
  assert.deepEqual(stage.store.images.uses().get(a), { count: 1, lastUsedAtMs: 1000 })
})

test('nothing is kept about an image that is gone, except for the VMs that use it', (t) => {
  const stage = new StoreStage(t)
  stage.removeVm(stage.insertVm('web-1', { rootfsSha256: a, kernelSha256: b }), 2000)
  stage.insertVm('web-2', { rootfsSha256: c, kernelSha256: b }, 3000)
  for (const image of [a, b, a]) stage.store.images.forgetUses(image)
  assert.deepEqual(
    stage.store.images.uses(),
    new Map([
      [b, { count: 1 }],
      [c, { count: 1, lastUsedAtMs: 3000 }],
    ]),
  )
})

test('an image was last used when a VM was given another one in its place', (t) => {
  const stage = new StoreStage(t)
  const vm = stage.insertVm('web-1', { rootfsSha256: a, kernelSha256: b }, 1000)
  const { desired } = stage.store.vms.get(vm) ?? assert.fail()
  const image = { ...desired.image, rootfsSha256: c }
  const change = { desired: { ...desired, image }, operationId: 'op-2' as never, nowMs: 5000 }
  stage.store.vms.changeDesired(vm, change)
  assert.deepEqual(
    stage.store.images.uses(),
    new Map([
      [a, { count: 0, lastUsedAtMs: 5000 }],
      [b, { count: 1, lastUsedAtMs: 5000 }],
      [c, { count: 1, lastUsedAtMs: 5000 }],
    ]),
  )
})

test('an image whose removal was withdrawn meanwhile keeps when it was used', (t) => {
  const stage = new StoreStage(t)
  const { images } = stage.store
  for (const image of [a, c]) images.noteRemoval(image, 500, 'op-1' as never)
  const vm = stage.insertVm('web-1', { rootfsSha256: a, kernelSha256: b }, 1000)
  images.forgetRemoved([a, c])
  stage.removeVm(vm, 2000)
  assert.deepEqual(images.removals(), [])
  images.forgetRemoved([a])
  assert.deepEqual(stage.store.images.uses().get(a), { count: 0, lastUsedAtMs: 2000 })
})
