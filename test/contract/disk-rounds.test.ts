import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { UserId, VmId } from '../../src/core/ids.ts'
import { HostFault } from '../../src/core/errors.ts'
import { given } from '../../src/lib/given.ts'
import { FakeDiskRounds } from '../fakes/fake-disk-rounds.ts'
import { FakeIncomingDisks } from '../fakes/fake-incoming-disks.ts'
import type { IncomingOwner } from '../../src/ports/disk-rounds.ts'
import { diskRoundsContract } from './disk-rounds.contract.ts'
import {
  arrival,
  diskMade,
  isFault,
  MIB,
  never,
  pulled,
  roundOf,
  SIZE_BYTES,
  vm,
} from './disk-rounds-stage.ts'
import type { RoundsStage } from './disk-rounds-stage.ts'

type FakeStage = RoundsStage & { readonly rounds: FakeDiskRounds; readonly incomingDisks: FakeIncomingDisks }

function fakeStage(): FakeStage {
  const rounds = new FakeDiskRounds()
  const { disks } = rounds
  const owners = new Map<VmId, IncomingOwner>()
  const incomingDisks = new FakeIncomingDisks({
    has: (id) => disks.has(id),
    isOf: ({ id, mark }) => owners.get(id)?.mark === mark,
    add: (owner, content) => {
      owners.set(owner.id, owner)
      disks.set(owner.id, content)
    },
  })
  const resized = (content: Uint8Array, sizeBytes: number): Uint8Array => {
    const disk = new Uint8Array(sizeBytes)
    disk.set(content)
    return disk
  }
  const diskOf = (id: VmId): Uint8Array => disks.get(id) ?? new Uint8Array()
  return {
    rounds,
    incomingDisks,
    userId: 200_001 as UserId,
    makeDisk: (id, content, sizeBytes) => void disks.set(id, resized(content, sizeBytes)),
    writeDisk: (id, offset, bytes) => diskOf(id).set(bytes, offset),
    punchDisk: (id, offset, length) => void diskOf(id).fill(0, offset, offset + length),
    growDisk: (id, sizeBytes) => void disks.set(id, resized(diskOf(id), sizeBytes)),
    contentOf: (id) => Uint8Array.from(diskOf(id)),
    lookAt: async (id) => {
      const disk = disks.get(id)
      if (disk === undefined) return { kind: 'absent' }
      const { mark = { storeId: '', createdAtMs: 0 }, rootfsSha256, rebuild, userId } = owners.get(id) ?? {}
      const usableBy = userId === undefined ? {} : { usableBy: userId }
      return {
        kind: 'present',
        sizeMib: disk.length / MIB,
        note: { mark, rootfsSha256, ...given({ rebuild }) },
        ...usableBy,
      }
    },
    reopen: () => {
      incomingDisks.restart()
      return { rounds, incomingDisks }
    },
    setInSight: (inSight) => {
      rounds.setInSight(inSight)
      incomingDisks.setInSight(inSight)
    },
  }
}

diskRoundsContract('fake rounds', async () => fakeStage())

test('fake rounds: a loss of power takes what was not flushed', async () => {
  const stage = fakeStage()
  await diskMade(stage)
  await pulled(stage, 1)
  const disk = await stage.incomingDisks.open(arrival, { number: 1, sizeBytes: SIZE_BYTES })
  await disk.write({ kind: 'hole', offset: 0, length: MIB })
  stage.incomingDisks.losePower()
  await stage.incomingDisks.publish(
    arrival,
    { ...stage, id: 'moved-1' as VmId, mark: { storeId: 's', createdAtMs: 1 } },
    never,
  )
  assert.ok(Buffer.from(await stage.contentOf(vm)).equals(await stage.contentOf('moved-1' as VmId)))
})

test('fake rounds: after a failed call an open disk takes no other', async () => {
  const { incomingDisks } = fakeStage()
  const disk = await incomingDisks.open(arrival, { number: 1, sizeBytes: MIB })
  incomingDisks.failNext('flush', new HostFault('storage_full', 'flushing'))
  await assert.rejects(disk.flush(), isFault('storage_full'))
  await assert.rejects(disk.flush(), isFault('storage_failed'))
})

test('fake rounds: a pool that cannot share blocks has none', async () => {
  const stage = fakeStage()
  await diskMade(stage)
  stage.rounds.setReflink(false)
  await assert.rejects(stage.rounds.ensureRound(roundOf(1), never), isFault('migration_unsupported'))
  assert.deepEqual(await stage.rounds.list(), [])
})
