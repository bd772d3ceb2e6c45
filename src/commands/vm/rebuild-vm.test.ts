import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage, createRequest } from '../../../test/command-stage.ts'
import { urlOf } from '../../../test/store-stage.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import { offerVm } from '../migration/offer-vm.ts'
import { startSnapshot } from '../snapshots/snapshots.ts'
import { createVm } from './create-vm.ts'
import { setMetadata } from './set-metadata.ts'
import { rebuildVm } from './rebuild-vm.ts'
import { setBoot } from './set-boot.ts'
import { setPower } from './set-power.ts'
import type { TestContext } from 'node:test'
import type { MigrationId, NodeName } from '../../core/migration/offer.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { SnapshotId } from '../../core/snapshots/record.ts'

const SECOND = 'c'.repeat(64) as Sha256
const rootfs = (signature = '1', sha256 = SECOND) => ({
  sha256,
  source: { url: new SignedUrl(`https://i.example/c?signature=${signature}`) },
})

/** Sets up a stopped VM whose disk was seen. */
function stoppedVm(t: TestContext) {
  const stage = commandStage(t)
  const { context, id, store, create, accepted, seenAs } = stage
  create()
  accepted(setPower(context, id, 'stopped'))
  seenAs('stopped')
  return {
    ...stage,
    rebuild: (image = rootfs()) => rebuildVm(context, id, image),
    /** Records that a look has found the disk of this rebuild. */
    rebuilt: (rebuild: number) =>
      store.vms.recordProgress(id, { observed: { state: 'stopped', sinceMs: 1000, rebuild }, nowMs: 1000 }),
  }
}

test('a rebuild is one generation with another image, another instance and another number', (t) => {
  const { store, id, rebuild, rebuilt, accepted } = stoppedVm(t)
  const before = store.vms.get(id)
  const { record } = accepted(rebuild())
  assert.deepEqual(record.desired.image, { ...before?.desired.image, rootfsSha256: SECOND, rebuild: 1 })
  assert.equal(record.desired.instance, 2)
  assert.equal(record.generations.desired, (before?.generations.desired ?? 0) + 1)
  assert.equal(accepted(rebuild()).changed, false)
  rebuilt(1)
  assert.equal(
    accepted(rebuild()).record.desired.image.rebuild,
    2,
    'the disk is made again from the same image',
  )
})

test('a rebuild is refused unless the VM is stopped, and while it or its disk is protected', (t) => {
  const { context, store, id, create, accepted, refusal, rebuild } = stoppedVm(t)
  create({ network: {} }, 'web-2')
  assert.equal(refusal(rebuildVm(context, 'web-2' as typeof id, rootfs())).code, 'vm_not_stopped')
  accepted(setMetadata(context, id, { labels: {}, protected: true }))
  assert.equal(refusal(rebuild()).code, 'vm_protected')
  accepted(setMetadata(context, id, { labels: {}, protected: false }))
  const nightly = 'nightly-7' as SnapshotId
  const urls = { firstPart: 1, parts: [urlOf('part=1')], complete: urlOf('complete') }
  assert.ok(startSnapshot(context, nightly, { vmId: id, partMib: 64, urls }).ok)
  assert.match(refusal(rebuild()).text, /^snapshot nightly-7 of web-1 has not captured its disk yet/)
  const capture = { atMs: 1, imageBytes: 1, consistency: 'crash', pausedMs: 0 } as const
  store.snapshots.advance(nightly, { stage: 'packing', capture, nowMs: 1 })
  accepted(rebuild())
})

test('the host must have room for the old disk and the new one, until the new one is seen', (t) => {
  const { capacity, store, id, create, accepted, refusal, rebuild, rebuilt } = stoppedVm(t)
  capacity.total.diskMib = 127
  assert.equal(refusal(rebuild()).code, 'insufficient_capacity')
  capacity.total.diskMib = 128
  accepted(rebuild())
  assert.equal(store.vms.recorded().disksMib, 128)
  const small = { disk: { sizeMib: 64 }, network: {} }
  assert.equal(refusal(create(small, 'web-2')).code, 'insufficient_capacity')
  rebuilt(1)
  assert.equal(store.vms.recorded().disksMib, 64)
  accepted(create(small, 'web-2'))
  assert.equal(store.vms.get(id)?.desired.disk.sizeMib, 64)
})

test('an image that is known to be larger than the disk, and one from a URL that is not allowed, are refused', (t) => {
  const { capacity, refusal, rebuild } = stoppedVm(t)
  capacity.imagesMib.set(SECOND, 65)
  assert.equal(refusal(rebuild()).code, 'disk_too_small')
  const local = { sha256: SECOND, source: { url: new SignedUrl('file:///etc/shadow') } }
  assert.deepEqual(refusal(rebuild(local)).errors?.[0]?.pointer, '/rootfs/url')
})

test('URLs can be fresh until the image is there, and a repeated creation keeps that of the rebuild', (t) => {
  const { context, store, id, pokes, accepted, rebuild } = stoppedVm(t)
  accepted(rebuild())
  pokes.length = 0
  assert.equal(accepted(rebuild(rootfs('2'))).changed, false)
  assert.deepEqual(pokes, ['web-1: fresh image URLs'])
  for (let time = 1; time <= 2; time += 1) accepted(createVm(context, id, createRequest({}, '9')))
  assert.equal(pokes.length, 2, 'the image from before the rebuild needs no URL')
  const urls = [...store.vms.inputs(id).sources.values()].map(({ url }) => url.reveal())
  assert.deepEqual(
    urls.toSorted((a, b) => (a < b ? -1 : 1)),
    ['https://i.example/b?signature=9', 'https://i.example/c?signature=2'],
  )
})

test('both images of a rebuild count as used', (t) => {
  const { store, accepted, rebuild } = stoppedVm(t)
  accepted(rebuild())
  const uses = store.images.uses()
  assert.deepEqual(
    ['a'.repeat(64), SECOND].map((sha256) => uses.get(sha256 as Sha256)),
    [
      { count: 0, lastUsedAtMs: 1000 },
      { count: 1, lastUsedAtMs: 1000 },
    ],
  )
})

test('a VM is not offered to another host before its rebuild is done, and its kernel is there', (t) => {
  const { context, store, id, accepted, refusal, rebuild, rebuilt } = stoppedVm(t)
  accepted(rebuild())
  const offer = {
    id: 'move-7' as MigrationId,
    node: 'node-2' as NodeName,
    mode: 'cold',
    expiresAtMs: 60_000,
  } as const
  const rebuilding = refusal(offerVm(context, id, offer))
  assert.equal(rebuilding.code, 'vm_busy')
  assert.match(rebuilding.text, /is being rebuilt/)
  rebuilt(1)
  accepted(setBoot(context, id, { kernel: rootfs() }))
  const booting = refusal(offerVm(context, id, offer))
  assert.equal(booting.code, 'vm_busy')
  assert.match(booting.text, /is being given another kernel/)
  const observed = { state: 'stopped', sinceMs: 1000, rebuild: 1, bootRevision: 1 } as const
  store.vms.recordProgress(id, { observed, nowMs: 1000 })
  accepted(offerVm(context, id, offer))
})
