import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { open, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { markOfTests } from '../../../test/record.ts'
import type { Sha256, UserId, VmId } from '../../core/ids.ts'
import { silentLog } from '../../log/log.ts'
import { markPool } from '../pool/pool-marker.ts'
import { removeVmDirectory } from '../pool/vm-directory.ts'
import { poolPaths } from '../pool/pool-paths.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import { lookAtDisk } from './look-at-disk.ts'
import { publishDisk, replaceDisk } from './publish-disk.ts'
import { VmDisks } from './vm-disks.ts'

const MIB = 1024 * 1024
const id = 'web-1' as VmId
const rootfsSha256 = 'ab'.repeat(32) as Sha256
const disk = { id, userId: (process.getuid?.() ?? 0) as UserId, sizeMib: 8, rootfsSha256, mark: markOfTests }
const never = new AbortController().signal
const written = Buffer.from('written by the guest')

async function poolWithImage(t: TestContext): Promise<PoolPaths> {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-disks-'))
  t.after(() => rmSync(directory, { recursive: true }))
  await markPool(directory)
  const paths = poolPaths(directory)
  await writeFile(paths.image(rootfsSha256), Buffer.alloc(4 * MIB, 'x'))
  return paths
}

/** Makes disks on a file system whose syncs end on demand. */
function slowDisks(paths: PoolPaths) {
  const begun = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const disks = new VmDisks(paths, silentLog, () => {
    begun.resolve()
    return release.promise
  })
  return { disks, begun: begun.promise, release: release.resolve }
}

test('a disk whose making was given up leaves no directory of a VM that is gone', async (t) => {
  const paths = await poolWithImage(t)
  const temporary = join(paths.tmp, 'disk-late')
  await writeFile(temporary, written)
  const note = { mark: markOfTests, rootfsSha256 }
  const signal = AbortSignal.abort()
  for (const publish of [publishDisk, replaceDisk])
    await assert.rejects(publish({ paths, temporary, id, userId: disk.userId, note, signal }), {
      name: 'AbortError',
    })
  assert.deepEqual(readdirSync(paths.disks), [])
})

test('a disk that was made meanwhile is not replaced, and keeps what was written to it', async (t) => {
  const paths = await poolWithImage(t)
  const slow = slowDisks(paths)
  const late = slow.disks.ensureDisk(disk, never)
  await slow.begun
  await new VmDisks(paths, silentLog).ensureDisk(disk, never)
  const guest = await open(paths.disk(id), 'r+')
  await guest.write(written, 0, written.length, 0)
  const { ino } = await guest.stat()
  await guest.close()
  slow.release()
  await late
  assert.equal(statSync(paths.disk(id)).ino, ino)
  assert.equal(statSync(paths.disk(id)).nlink, 1)
  assert.deepEqual(readFileSync(paths.disk(id)).subarray(0, written.length), written)
  assert.deepEqual(readdirSync(paths.tmp), [])
})

test('a disk that was made meanwhile still grows to its size', async (t) => {
  const paths = await poolWithImage(t)
  const slow = slowDisks(paths)
  const late = slow.disks.ensureDisk({ ...disk, sizeMib: 9 }, never)
  await slow.begun
  await new VmDisks(paths, silentLog).ensureDisk(disk, never)
  slow.release()
  await late
  assert.equal(statSync(paths.disk(id)).size, 9 * MIB)
})

test('a rebuild that loses power before its note is written is made again, from the image alone', async (t) => {
  const paths = await poolWithImage(t)
  const disks = new VmDisks(paths, silentLog)
  await disks.ensureDisk(disk, never)
  const oldNote = readFileSync(paths.diskNote(id))
  await writeFile(paths.disk(id), written)
  await disks.rebuildDisk({ ...disk, rebuild: 1 }, never)
  assert.deepEqual(readFileSync(paths.disk(id)).subarray(0, 4 * MIB), Buffer.alloc(4 * MIB, 'x'))
  const made = statSync(paths.disk(id))
  await writeFile(paths.diskNote(id), oldNote)
  await disks.rebuildDisk({ ...disk, rebuild: 1 }, never)
  assert.notEqual(statSync(paths.disk(id)).ino, made.ino)
  assert.match(readFileSync(paths.diskNote(id), 'utf8'), /"rebuild": 1/)
  assert.deepEqual(readdirSync(paths.tmp), [])
})

test('a rebuild that is aborted before its disk is durable leaves what the guest has written', async (t) => {
  const paths = await poolWithImage(t)
  await new VmDisks(paths, silentLog).ensureDisk(disk, never)
  await writeFile(paths.disk(id), written)
  const slow = slowDisks(paths)
  const controller = new AbortController()
  const leftBehind = slow.disks.rebuildDisk({ ...disk, rebuild: 1 }, controller.signal)
  await slow.begun
  assert.deepEqual(readFileSync(paths.disk(id)), written)
  controller.abort(new Error('the step took too long'))
  slow.release()
  await assert.rejects(leftBehind)
  assert.deepEqual(readFileSync(paths.disk(id)), written)
  assert.doesNotMatch(readFileSync(paths.diskNote(id), 'utf8'), /rebuild/)
  assert.deepEqual(readdirSync(paths.tmp), [])
})

test('a disk whose making is aborted during the sync gets no name, and the next call makes it', async (t) => {
  const paths = await poolWithImage(t)
  const slow = slowDisks(paths)
  const controller = new AbortController()
  const reason = new Error('the step took too long')
  const leftBehind = slow.disks.ensureDisk(disk, controller.signal)
  await slow.begun
  controller.abort(reason)
  const next = slow.disks.ensureDisk(disk, never)
  const unlucky = slow.disks.ensureDisk(disk, AbortSignal.timeout(20))
  await assert.rejects(unlucky, { name: 'TimeoutError' })
  assert.equal(readdirSync(paths.tmp).length, 1, 'one disk at a time is made for a VM')
  slow.release()
  await assert.rejects(leftBehind, reason)
  await next
  assert.equal(statSync(paths.disk(id)).size, disk.sizeMib * MIB)
  assert.deepEqual(readdirSync(paths.tmp), [])
})

test('what is left of a disk whose making was aborted is seen', async (t) => {
  const paths = await poolWithImage(t)
  const slow = slowDisks(paths)
  const controller = new AbortController()
  const leftBehind = slow.disks.ensureDisk(disk, controller.signal)
  await slow.begun
  controller.abort(new Error('the VM is deleted'))
  slow.release()
  await assert.rejects(leftBehind, /the VM is deleted/)
  assert.deepEqual(await lookAtDisk(paths, id), { kind: 'absent', hasDirectory: true })
  await removeVmDirectory(paths, id)
  assert.deepEqual(await lookAtDisk(paths, id), { kind: 'absent' })
})
