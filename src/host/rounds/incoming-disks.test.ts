import assert from 'node:assert/strict'
import { linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { UserId, VmId } from '../../core/ids.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import { NoAnswer } from '../files/bounded-calls.ts'
import { GatedFile } from '../files/gated-file.ts'
import { accessPool } from '../pool/pool-access.ts'
import { markPool } from '../pool/pool-marker.ts'
import { PoolIncomingDisks } from './incoming-disks.ts'

const arrival = 'a-1' as ArrivalId
const SIZE_BYTES = 1024 * 1024
const never = new AbortController().signal
const owner = {
  id: 'web-1' as VmId,
  userId: process.getuid?.() as UserId,
  mark: { storeId: 'store-1', createdAtMs: 1 },
}

async function stage(t: TestContext) {
  const base = mkdtempSync(join(tmpdir(), 'vmh-incoming-'))
  t.after(() => rmSync(base, { recursive: true }))
  const directory = join(base, 'pool')
  const { poolId } = await markPool(directory)
  const access = accessPool(directory, poolId)
  return { disks: new PoolIncomingDisks(access), paths: access.paths, base }
}

for (const number of [1, 2])
  test(`a disk whose length was set without an answer before round ${number} is not written to again, until it is removed`, async (t) => {
    const { disks } = await stage(t)
    const open = async (round: number): Promise<void> =>
      (await disks.open(arrival, { number: round, sizeBytes: SIZE_BYTES })).close()
    if (number > 1) await open(1)
    const truncations = t.mock.method(GatedFile.prototype, 'truncate')
    truncations.mock.mockImplementationOnce(() => Promise.reject(new NoAnswer('no answer')))
    await assert.rejects(open(number), { code: 'storage_failed' })
    await assert.rejects(open(number), { code: 'round_lost' })
    await disks.remove(arrival)
    await open(1)
  })

for (const number of [1, 2])
  test(`a disk that became that of a VM is not opened for round ${number}, and no file stays open`, async (t) => {
    const { disks, paths, base } = await stage(t)
    await (await disks.open(arrival, { number: 1, sizeBytes: SIZE_BYTES })).close()
    linkSync(paths.incomingDisk(arrival), join(base, 'disk-of-a-vm'))
    const truncations = t.mock.method(GatedFile.prototype, 'truncate')
    const closes = t.mock.method(GatedFile.prototype, 'close')
    await assert.rejects(disks.open(arrival, { number, sizeBytes: SIZE_BYTES }), { code: 'round_lost' })
    assert.equal(truncations.mock.callCount(), 0)
    assert.equal(closes.mock.callCount(), 1)
  })

test('an id that is not a plain name is refused, and nothing outside is made or removed', async (t) => {
  const { disks, paths, base } = await stage(t)
  const outside = join(base, 'outside.raw')
  writeFileSync(outside, 'precious')
  const odd = relative(paths.incoming, outside).slice(0, -'.raw'.length) as ArrivalId
  assert.equal(paths.incomingDisk(odd), outside)
  mkdirSync(paths.incoming)
  await assert.rejects(disks.open(odd, { number: 1, sizeBytes: SIZE_BYTES }), /plain name/)
  await assert.rejects(disks.publish(odd, owner, never), /plain name/)
  await assert.rejects(disks.remove(odd), /plain name/)
  assert.equal(readFileSync(outside, 'utf8'), 'precious')
})

test('a disk that is open is neither opened again nor published', async (t) => {
  const { disks } = await stage(t)
  const disk = await disks.open(arrival, { number: 1, sizeBytes: SIZE_BYTES })
  await assert.rejects(disks.open(arrival, { number: 1, sizeBytes: SIZE_BYTES }), /opened once/)
  await assert.rejects(disks.publish(arrival, owner, never), /closed before/)
  await disk.close()
  await disks.publish(arrival, owner, never)
})

test('a disk that was published for a VM is not that of a later VM with its id', async (t) => {
  const { disks, paths } = await stage(t)
  await (await disks.open(arrival, { number: 1, sizeBytes: SIZE_BYTES })).close()
  for (const _time of [1, 2]) await disks.publish(arrival, owner, never)
  const later = { ...owner, mark: { ...owner.mark, createdAtMs: 2 } }
  await assert.rejects(disks.publish(arrival, later, never), { code: 'disk_foreign' })
  rmSync(paths.diskNote(owner.id))
  await assert.rejects(disks.publish(arrival, owner, never), { code: 'disk_foreign' })
})

test('only incoming disks are listed, whatever else lies beside them', async (t) => {
  const { disks, paths } = await stage(t)
  await (await disks.open(arrival, { number: 1, sizeBytes: SIZE_BYTES })).close()
  for (const name of ['a-2.tmp', '.raw', '.hidden.raw']) mkdirSync(join(paths.incoming, name))
  assert.deepEqual(await disks.list(), [arrival])
})

test('a disk to which a write had no answer does not become that of a VM', async (t) => {
  const { disks } = await stage(t)
  const disk = await disks.open(arrival, { number: 1, sizeBytes: SIZE_BYTES })
  t.mock.method(GatedFile.prototype, 'punchHole', () => Promise.reject(new NoAnswer('no answer')))
  await assert.rejects(disk.write({ kind: 'hole', offset: 0, length: 4096 }), { code: 'storage_failed' })
  await disk.close()
  await assert.rejects(disks.publish(arrival, owner, never), { code: 'round_lost' })
  assert.deepEqual(await disks.list(), [arrival])
})

test('a disk that is larger than a later round of it is lost, and is not cut', async (t) => {
  const { disks, paths } = await stage(t)
  await (await disks.open(arrival, { number: 1, sizeBytes: SIZE_BYTES })).close()
  await assert.rejects(disks.open(arrival, { number: 2, sizeBytes: SIZE_BYTES / 2 }), { code: 'round_lost' })
  assert.equal(statSync(paths.incomingDisk(arrival)).size, SIZE_BYTES)
})
