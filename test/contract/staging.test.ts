import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { FakeStaging } from '../fakes/fake-staging.ts'
import { captured, isFault, MIB, never, packed, staged, START, vm } from './staging-stage.ts'
import type { StagingStage, Taken } from './staging-stage.ts'
import { stagingContract } from './staging.contract.ts'

const stageOf = (staging: FakeStaging): StagingStage => ({
  staging,
  makeDisk: (id, content, sizeBytes) => void staging.disks.set(id, { content, sizeBytes }),
  writeDisk: (id, bytes) => staging.disks.get(id)?.content.set(bytes),
  cutPacked: (id, bytes) => staging.cutPacked(id, bytes),
  reopen: () => staging,
  setInSight: (inSight) => staging.setInSight(inSight),
})

stagingContract('fake staging', async () => stageOf(new FakeStaging()))

test('fake staging: a loss of power takes whatever no handed-over part covers', async () => {
  const staging = new FakeStaging()
  await captured(stageOf(staging))
  const taken: Taken[] = []
  const cut = packed(staging, {
    onPart: async (part, next) => {
      if (part.number === 2) throw new Error('the power goes')
      taken.push({ part, next })
    },
  })
  await assert.rejects(cut, /the power goes/)
  staging.losePower()
  const { taken: rest } = await packed(staging, { from: taken[0]?.next ?? START, parts: 1 })
  assert.equal(rest[0]?.part.number, 2)
  staging.cutPacked(staged, 1)
  const lost = packed(staging, { from: taken[0]?.next ?? START, parts: 1 })
  await assert.rejects(lost, isFault('staging_lost'))
})

test('fake staging: a pool that cannot share blocks captures nothing', async () => {
  const staging = new FakeStaging({ diskOf: () => ({ content: randomBytes(10), sizeBytes: MIB }) })
  staging.setReflink(false)
  await staging.flushDisk(vm, never)
  await assert.rejects(staging.clone(staged, vm), isFault('snapshot_unsupported'))
  assert.deepEqual(await staging.list(), [])
})
