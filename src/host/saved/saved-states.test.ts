import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { crc32 } from 'node:zlib'
import { eventually } from '../../../test/daemon/support/eventually.ts'
import { hungPath } from '../../../test/hung-open.ts'
import { renderSavedMetadata } from '../../core/saved/saved-metadata.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import { silentLog } from '../../log/log.ts'
import { sync } from '../files/durable.ts'
import { GatedFile } from '../files/gated-file.ts'
import { accessPool } from '../pool/pool-access.ts'
import { markPool } from '../pool/pool-marker.ts'
import { MEMORY, metadataPath, poolPaths } from '../pool/pool-paths.ts'
import { PoolSavedStates } from './saved-states.ts'

const id = 'vm-1' as VmId
const monitor = { kind: 'qemu', version: '10.0.0' } as unknown as Parameters<PoolSavedStates['inspect']>[1]

/** Makes saved states on a disk that fails to sync while `breaks` says so. */
async function stage(t: TestContext) {
  const base = mkdtempSync(join(tmpdir(), 'vmh-saved-'))
  t.after(() => rmSync(base, { recursive: true }))
  const directory = join(base, 'pool')
  const { poolId } = await markPool(directory)
  const paths = poolPaths(directory)
  const disk = { breaks: false, wait: async (): Promise<void> => {} }
  const states = new PoolSavedStates({
    ...accessPool(directory, poolId),
    log: silentLog,
    sync: async (path) => {
      if (disk.breaks) throw Object.assign(new Error('fsync'), { code: 'EIO', errno: -constants.errno.EIO })
      await disk.wait()
      await sync(path)
    },
  })
  mkdirSync(paths.saved(id), { recursive: true })
  return { states, paths, disk, base }
}

test('a removal that is not on the disk fails at each try, until it is', async (t) => {
  const { states, paths, disk } = await stage(t)
  disk.breaks = true
  await assert.rejects(states.removePublished(id), { code: 'storage_failed' })
  assert.ok(!existsSync(paths.saved(id)))
  await assert.rejects(states.removePublished(id), { code: 'storage_failed' })
  await assert.rejects(states.inspect(id, monitor), { code: 'storage_inspection_failed' })
  disk.breaks = false
  await states.removePublished(id)
  assert.deepEqual(await states.inspect(id, monitor), { kind: 'absent' })
})

test('one lasting absence says nothing about the next saved state that is removed', async (t) => {
  const { states, paths, disk } = await stage(t)
  await states.removePublished(id)
  mkdirSync(paths.saved(id))
  disk.breaks = true
  await assert.rejects(states.removePublished(id), { code: 'storage_failed' })
  await assert.rejects(states.inspect(id, monitor), { code: 'storage_inspection_failed' })
})

test('an absence that is on the disk is not synced again by each look', async (t) => {
  const { states, disk } = await stage(t)
  await states.removePublished(id)
  disk.breaks = true
  assert.deepEqual(await states.inspect(id, monitor), { kind: 'absent' })
})

test('a VM that was never saved needs no other sync once it has a directory for its saves', async (t) => {
  const { states, disk } = await stage(t)
  const other = 'vm-2' as VmId
  await states.ensureDirectory(other)
  disk.breaks = true
  assert.deepEqual(await states.inspect(other, monitor), { kind: 'absent' })
})

test('if nothing was published, its removal does not sync the disk', async (t) => {
  const { states, disk } = await stage(t)
  await states.removePublished(id)
  disk.breaks = true
  await states.removePublished(id)
  await states.removePublished(id)
})

test('a VM without any directory has no saved state to remove', async (t) => {
  const { states } = await stage(t)
  await states.removePublished('vm-2' as VmId)
})

test('nothing about a deleted VM is remembered for the next one with its id', async (t) => {
  const { states, disk } = await stage(t)
  await states.removePublished(id)
  states.forget(id)
  disk.breaks = true
  await assert.rejects(states.inspect(id, monitor), { code: 'storage_inspection_failed' })
})

test('a file for memory whose making was left behind takes nothing from the next save', async (t) => {
  const { states, paths, disk } = await stage(t)
  const other = 'vm-2' as VmId
  const [reached, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  disk.wait = () => {
    reached.resolve()
    return held.promise
  }
  const first = states.ensureMemoryFile(other, process.getuid?.() as UserId)
  await reached.promise
  const write = async (): Promise<void> => {
    await states.ensureMemoryFile(other, process.getuid?.() as UserId)
    writeFileSync(states.paths(other).writing, 'memory')
  }
  const second = write()
  // Enough calls for the second one to come to its end, if it does not wait.
  for (let look = 0; look < 50; look += 1) await states.inspect(id, monitor)
  held.resolve()
  await Promise.all([first, second])
  assert.equal(readFileSync(states.paths(other).writing, 'utf8'), 'memory')
  assert.ok(!existsSync(paths.savedUnfinished(other)))
})

test('discards of one VM that do not end hold up no discard of another VM, and take one place', async (t) => {
  const { states, paths } = await stage(t)
  const hung = hungPath(t)
  /** Removes a save that failed before its publication. */
  const failAndRemove = async (name: string, isHung = false): Promise<void> => {
    const unfinished = paths.savedUnfinished(name as VmId)
    mkdirSync(unfinished, { recursive: true })
    writeFileSync(join(unfinished, MEMORY), 'memory')
    if (isHung) symlinkSync(hung.path, metadataPath(unfinished))
    await states.remove(name as VmId)
  }
  await failAndRemove('vm-2', true)
  await failAndRemove('vm-2')
  const held = readdirSync(paths.tmp)
  for (let other = 3; other < 13; other += 1) await failAndRemove(`vm-${other}`)
  await eventually(() => readdirSync(paths.tmp).every((name) => held.includes(name)))
  assert.equal(readdirSync(paths.tmp).length, 2)
  hung.release()
  hung.end()
  await eventually(() => readdirSync(paths.tmp).length === 0)
})

const MIB = 1024 * 1024

/** Returns how many bytes this process has read from files so far (proc_pid_io(5)). */
const bytesRead = (): number =>
  Number(/^rchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1] ?? assert.fail('no rchar'))

/** Publishes a saved state with this memory. */
function published(
  { states, paths }: Pick<Awaited<ReturnType<typeof stage>>, 'states' | 'paths'>,
  memory: Buffer,
): void {
  writeFileSync(states.paths(id).published, memory)
  const metadata = renderSavedMetadata({
    vmId: id,
    savedAtMs: 1,
    monitor: { program: 'qemu', version: '10.0.0', accelerator: 'tcg', form: 'mapped' },
    compute: { cpuMillicores: 1000, memoryMib: 48 },
    memory: { lengthBytes: memory.length, storedBytes: memory.length, crc32: crc32(memory) },
    disk: { inode: 1n, sizeBytes: 1, modifiedNs: 1n },
  })
  writeFileSync(metadataPath(paths.saved(id)), metadata)
}

test('a check of saved memory that was aborted continues where it stopped', async (t) => {
  const { states, paths } = await stage(t)
  const memory = randomBytes(48 * MIB)
  published({ states, paths }, memory)
  const late = new AbortController()
  const before = bytesRead()
  const verifying = states.verify(id, late.signal)
  while (bytesRead() - before < 24 * MIB) await new Promise(setImmediate)
  late.abort(new Error('the step took too long'))
  await assert.rejects(verifying, /took too long/)
  const cutOffAt = bytesRead()
  await states.verify(id, new AbortController().signal)
  const again = bytesRead() - cutOffAt
  assert.ok(again < memory.length - 12 * MIB, `${again} bytes were read again`)
})

const never = new AbortController().signal

for (const [what, damage] of [
  [
    'a byte changed',
    (memory: Buffer) => Buffer.concat([memory.subarray(0, -1), Buffer.from([~(memory.at(-1) ?? 0)])]),
  ],
  ['a byte was added', (memory: Buffer) => Buffer.concat([memory, Buffer.alloc(1)])],
  ['the end is gone', (memory: Buffer) => memory.subarray(0, -1)],
] as readonly [string, (memory: Buffer) => Buffer][])
  test(`saved memory of which ${what} is neither restored nor sent to another host`, async (t) => {
    const { states, paths } = await stage(t)
    const memory = randomBytes(MIB)
    published({ states, paths }, memory)
    await states.verify(id, never)
    writeFileSync(states.paths(id).published, damage(memory))
    const send = async (): Promise<void> => {
      for await (const _chunk of states.frames(id, 0, never)) assert.fail('a frame was sent')
    }
    await assert.rejects(states.verify(id, never), { code: 'saved_state_corrupt' })
    await assert.rejects(send(), { code: 'saved_state_corrupt' })
  })

/** Returns how many files this process has open. */
const openFiles = (): number => readdirSync('/proc/self/fd').length

test('saved memory that was read wrongly once is read again by the next check', async (t) => {
  const { states, paths } = await stage(t)
  const memory = randomBytes(MIB)
  published({ states, paths }, memory)
  const before = openFiles()
  t.mock.method(GatedFile.prototype, 'read').mock.mockImplementationOnce(async (buffer, offset, length) => {
    buffer.fill(0, offset, offset + length)
    return { bytesRead: length }
  })
  await assert.rejects(states.verify(id, never), { code: 'saved_state_corrupt' })
  await states.verify(id, never)
  assert.equal(openFiles(), before)
})

test('saved memory that is cut short during a check is damaged', async (t) => {
  const { states, paths } = await stage(t)
  published({ states, paths }, randomBytes(MIB))
  const before = openFiles()
  const reads = t.mock.method(GatedFile.prototype, 'read')
  reads.mock.mockImplementation(async () => ({ bytesRead: 0 }))
  await assert.rejects(states.verify(id, never), { code: 'saved_state_corrupt' })
  assert.equal(openFiles(), before)
})

test('saved memory that is cut short while it is sent is not sent whole, and no file stays open', async (t) => {
  const { states, paths } = await stage(t)
  published({ states, paths }, randomBytes(32 * MIB))
  const before = openFiles()
  const send = async (): Promise<void> => {
    for await (const _chunk of states.frames(id, 0, never)) truncateSync(states.paths(id).published, 0)
  }
  // Either its bytes or its map cannot be read.
  await assert.rejects(send(), { code: /^(saved_state_corrupt|storage_failed)$/ })
  assert.equal(openFiles(), before)
})

test('a saved state that is out of sight is unknown and not absent, so its guest does not boot', async (t) => {
  const { states, paths, base } = await stage(t)
  renameSync(dirname(paths.marker), join(base, 'unmounted'))
  mkdirSync(dirname(paths.marker))
  await assert.rejects(states.inspect(id, monitor), { code: 'storage_inspection_failed' })
  await assert.rejects(states.describe(id), { code: 'storage_inspection_failed' })
})

test('a saved state that goes out of sight during a look is unknown and not absent', async (t) => {
  const { states, paths, disk, base } = await stage(t)
  await states.removePublished(id)
  states.forget(id)
  disk.wait = async () => renameSync(paths.marker, join(base, 'marker'))
  await assert.rejects(states.inspect(id, monitor), { code: 'storage_inspection_failed' })
})
