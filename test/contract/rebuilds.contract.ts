import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import { markOfTests } from '../record.ts'
import { isFault, promising, rootfsIn, sha256Of } from './storage.contract.ts'
import type { StorageStage } from './storage.contract.ts'

const MIB = 1024 * 1024
const id = 'web-1' as VmId
const never = new AbortController().signal

/** Promises of every pool about rebuilds; `set` makes a stage and registers its own clean-up. */
export function rebuildsContract(
  name: string,
  set: (t: TestContext) => Promise<StorageStage>,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = promising(name, set, options)
  const second = randomBytes(MIB)
  const rebuilt = { sizeMib: 9, rootfsSha256: sha256Of(second), rebuild: 1, mark: markOfTests }
  const diskIn = async ({ storage }: StorageStage) => (await storage.inspect(id, [])).disk

  promise(
    'a rebuild replaces the disk by one of another image, and its repetition changes nothing',
    async (stage) => {
      const { storage, userId, offer } = stage
      const rootfsSha256 = await rootfsIn(stage)
      await storage.ensureDisk({ id, userId, sizeMib: 5, rootfsSha256, mark: markOfTests }, never)
      await storage.ensureImage(rebuilt.rootfsSha256, await offer(second), never)
      const note = { mark: markOfTests, rootfsSha256: rebuilt.rootfsSha256, rebuild: 1 }
      for (const sizeMib of [9, 4]) {
        await storage.rebuildDisk({ ...rebuilt, sizeMib, id, userId }, never)
        assert.deepEqual(await diskIn(stage), { kind: 'present', sizeMib: 9, note, usableBy: userId })
      }
      const again = { ...rebuilt, id, userId, rootfsSha256, rebuild: 2, sizeMib: 4 }
      await storage.rebuildDisk(again, never)
      assert.deepEqual(await diskIn(stage), {
        kind: 'present',
        sizeMib: 4,
        note: { ...note, rootfsSha256, rebuild: 2 },
        usableBy: userId,
      })
    },
  )

  promise('a rebuild makes a disk that is not there', async (stage) => {
    const { storage, userId, offer } = stage
    await storage.ensureImage(rebuilt.rootfsSha256, await offer(second), never)
    await storage.rebuildDisk({ ...rebuilt, id, userId }, never)
    const disk = await diskIn(stage)
    assert.equal(disk.kind === 'present' && disk.note?.rebuild, 1)
  })

  promise('a rebuild that fails or is aborted leaves the old disk', async (stage) => {
    const { storage, userId, offer } = stage
    const rootfsSha256 = await rootfsIn(stage)
    await storage.ensureDisk({ id, userId, sizeMib: 5, rootfsSha256, mark: markOfTests }, never)
    const before = await diskIn(stage)
    await assert.rejects(storage.rebuildDisk({ ...rebuilt, id, userId }, never), isFault('storage_failed'))
    assert.deepEqual(await diskIn(stage), before)
    await storage.ensureImage(rebuilt.rootfsSha256, await offer(second), never)
    const small = { ...rebuilt, id, userId, sizeMib: 0 }
    await assert.rejects(storage.rebuildDisk(small, never), isFault('disk_smaller_than_image'))
    const reason = new Error('the VM is being deleted')
    const aborted = storage.rebuildDisk({ ...rebuilt, id, userId }, AbortSignal.abort(reason))
    await assert.rejects(aborted, reason)
    const another = { ...rebuilt, id, userId, adopts: true, mark: { ...markOfTests, createdAtMs: 2000 } }
    await assert.rejects(storage.rebuildDisk(another, never), isFault('disk_foreign'))
    assert.deepEqual(await diskIn(stage), before)
  })
}
