import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { StagingId } from '../../src/core/snapshots/record.ts'
import type { VmId } from '../../src/core/ids.ts'
import { limits } from '../../src/config/limits.ts'
import type { PoolStaging } from '../../src/host/staging/pool-staging.ts'
import {
  capture,
  captured,
  content,
  digest,
  imageOf,
  isFault,
  MIB,
  never,
  packed,
  SIZE_BYTES,
  staged,
  START,
  vm,
} from '../contract/staging-stage.ts'
import type { StagingStage } from '../contract/staging-stage.ts'
import { until } from '../contract/until.ts'
import { stagingContract } from '../contract/staging.contract.ts'
import { fillPool } from './fill-pool.ts'
import { poolOn } from './pool-on.ts'
import type { FileSystem, PoolStage } from './pool-on.ts'
import { canAs, writeAt } from './saved-states-stage.ts'

type OnDisk = StagingStage & {
  readonly staging: PoolStaging
  readonly pool: PoolStage
  readonly file: (name: 'disk.raw' | 'packed.zst' | 'frames') => string
}

const BLOCK_BYTES = 64 * 1024
const ZEROS_WRITTEN_TO = 7 * MIB

async function stagedOn(fileSystem: FileSystem, t: TestContext): Promise<OnDisk> {
  const pool = await poolOn(fileSystem, t)
  const disk = (id: VmId): string => join(pool.directory, 'disks', id, 'disk.raw')
  const fileOf = (id: StagingId, name: string): string => join(pool.directory, 'staging', id, name)
  return {
    staging: pool.storage.staging,
    pool,
    file: (name) => fileOf(staged, name),
    makeDisk: (id, bytes, sizeBytes) => {
      fs.mkdirSync(join(pool.directory, 'disks', id), { recursive: true })
      fs.writeFileSync(disk(id), '')
      for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
        const block = bytes.subarray(at, at + BLOCK_BYTES)
        // Some of the zeros are written, like those of a guest that does not discard.
        if (at < ZEROS_WRITTEN_TO || !Buffer.alloc(block.length).equals(block)) writeAt(disk(id), at, block)
      }
      fs.truncateSync(disk(id), sizeBytes)
    },
    writeDisk: (id, bytes) => writeAt(disk(id), 0, bytes),
    cutPacked: (id, bytes) => fs.truncateSync(fileOf(id, 'packed.zst'), bytes),
    reopen: () => pool.reopen().staging,
    setInSight: pool.setInSight,
  }
}

stagingContract('staging on XFS', (t) => stagedOn('xfs', t), { skip })

const tmpOf = ({ pool }: OnDisk): string[] => fs.readdirSync(join(pool.directory, 'tmp'))

/** Lists the files of the pool that this process has open. */
const openIn = ({ pool }: OnDisk): string[] =>
  fs
    .readdirSync('/proc/self/fd')
    .map((fd) => `/proc/self/fd/${fd}`)
    // One of them was the listing itself.
    .filter((link) => fs.lstatSync(link, { throwIfNoEntry: false }) !== undefined)
    .map((link) => fs.readlinkSync(link, 'utf8'))
    .filter((target) => target.startsWith(pool.directory))

const niceValues = (): number[] =>
  fs.readdirSync('/proc/self/task').flatMap((tid) => {
    const path = `/proc/self/task/${tid}/stat`
    // A thread may end after it was listed.
    if (!fs.existsSync(path)) return []
    const stat = fs.readFileSync(path, 'utf8')
    // The program's name, in parentheses, may have spaces (proc_pid_stat(5), field 19).
    return [Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])]
  })

/** Counts the threads that pack. The kernel lists one for a moment after it has ended. */
const gentle = (): number => niceValues().filter((nice) => nice === limits.packNice).length

const isNone = (count: number): boolean => count === 0

test('a packed image is readable by another zstd, which recognises it as one file', { skip }, async (t) => {
  const stage = await stagedOn('xfs', t)
  const image = await captured(stage)
  await packed(stage.staging)
  const unpacked = spawnSync('zstd', ['-dc', stage.file('packed.zst')], { maxBuffer: 2 * SIZE_BYTES })
  assert.equal(unpacked.status, 0, unpacked.stderr.toString())
  assert.ok(unpacked.stdout.equals(image))
  const { stdout } = spawnSync('zstd', ['-lv', stage.file('packed.zst')])
  assert.match(stdout.toString(), /Zstandard Frames: 9\n.*Skippable Frames: 1\n[^]*Check: XXH64/)
})

test('a capture shares the blocks of the disk, and only root can see it', { skip }, async (t) => {
  const stage = await stagedOn('xfs', t)
  await captured(stage)
  fs.chmodSync(join(stage.pool.directory, 'disks', vm, 'disk.raw'), 0o644)
  const { bavail, bsize } = fs.statfsSync(stage.pool.mountPoint)
  await capture(stage.staging)
  const after = fs.statfsSync(stage.pool.mountPoint)
  assert.ok((bavail - after.bavail) * bsize < MIB, 'it was copied')
  assert.deepEqual(tmpOf(stage), [])
  for (const path of [join(stage.pool.directory, 'staging'), join(stage.pool.directory, 'staging', staged)]) {
    assert.ok(canAs(0, 'ls', path))
    assert.ok(!canAs(200_002, 'ls', path))
  }
  assert.ok(!canAs(200_002, 'head', '-c1', stage.file('disk.raw')))
})

test('a file system that cannot share blocks captures nothing and keeps nothing', { skip }, async (t) => {
  const stage = await stagedOn('ext4', t)
  await stage.makeDisk(vm, content(), SIZE_BYTES)
  await stage.staging.flushDisk(vm, never)
  await assert.rejects(stage.staging.clone(staged, vm), isFault('snapshot_unsupported'))
  assert.deepEqual(tmpOf(stage), [])
  assert.deepEqual(await stage.staging.list(), [])
})

test('other files beside the staging of snapshots are not listed, and hide none', { skip }, async (t) => {
  const stage = await stagedOn('xfs', t)
  await captured(stage)
  const beside = join(stage.pool.directory, 'staging')
  fs.writeFileSync(join(beside, '.nfs000123'), 'x')
  fs.writeFileSync(join(beside, 'notes'), 'x')
  fs.mkdirSync(join(beside, 'lost+found'))
  assert.deepEqual(
    (await stage.staging.list()).map(({ stagingId }) => stagingId),
    [staged],
  )
})

test('a clone that another daemon did not keep is swept, and lost', { skip }, async (t) => {
  const stage = await stagedOn('xfs', t)
  await captured(stage)
  await stage.staging.clone(staged, vm)
  assert.equal(tmpOf(stage).length, 1)
  await assert.rejects(stage.reopen().keep(staged), isFault('staging_lost'))
  assert.deepEqual(tmpOf(stage), [])
})

test('holes of a disk are neither read nor stored', { skip }, async (t) => {
  const stage = await stagedOn('xfs', t)
  const sizeBytes = 1024 * MIB
  const bytes = randomBytes(MIB)
  await stage.makeDisk(vm, bytes, sizeBytes)
  await capture(stage.staging)
  const readBytes = (): number => Number(/rchar: (\d+)/.exec(fs.readFileSync('/proc/self/io', 'utf8'))?.[1])
  const before = readBytes()
  const { storedBytes, sha256 } = await packed(stage.staging)
  assert.ok(readBytes() - before < 64 * MIB, `${readBytes() - before} bytes were read`)
  assert.ok(storedBytes < 2 * MIB)
  assert.equal(sha256, digest('sha256', imageOf(bytes, sizeBytes)))
})

test('a full pool fails the pack, which continues when there is room', { skip }, async (t) => {
  const stage = await stagedOn('xfs', t)
  const image = await captured(stage)
  const makeRoom = await fillPool(stage.pool.mountPoint)
  await assert.rejects(packed(stage.staging), isFault('storage_full'))
  assert.deepEqual(openIn(stage), [])
  await makeRoom()
  const { sha256 } = await packed(stage.staging)
  assert.equal(sha256, digest('sha256', image))
  const fillAgain = await fillPool(stage.pool.mountPoint)
  await stage.staging.remove(staged)
  assert.deepEqual([await stage.staging.list(), tmpOf(stage)], [[], []])
  await fillAgain()
})

test('threads that pack have a low priority, and end with the pack, as its files do', { skip }, async (t) => {
  const stage = await stagedOn('xfs', t)
  await captured(stage)
  const seen: number[] = []
  const reason = new Error('enough')
  const controller = new AbortController()
  for (const end of ['whole', 'aborted']) {
    const before = fs.readdirSync('/proc/self/task').length
    const onPart = async (): Promise<void> => {
      seen.push(gentle())
      if (end === 'aborted') controller.abort(reason)
    }
    const job = { stagingId: staged, from: START, parts: 0, partBytes: 3 * MIB, onPart }
    const packing = stage.staging.pack(job, controller.signal)
    if (end === 'aborted') await assert.rejects(packing, reason)
    else await packing
    assert.ok(
      fs.readdirSync('/proc/self/task').length <= before + 4,
      'beyond the four that Node has for files',
    )
    await until(gentle, isNone)
    assert.deepEqual(openIn(stage), [], end)
  }
  assert.ok(seen.length >= 4 && seen.every((count) => count >= 2), seen.join())
})

test('a thread that ends or cannot begin fails the pack', { skip }, async (t) => {
  const stage = await stagedOn('xfs', t)
  const image = await captured(stage)
  for (const script of [
    'throw new Error("no")',
    'process.exit(3)',
    'require("node:worker_threads").parentPort.on("message", () => process.exit(3))',
    'require("node:worker_threads").parentPort.on("message", () => { throw new Error("no") })',
    'const a = []; for (;;) a.push({ a: "heap" })',
  ]) {
    const { staging } = stage.pool.reopen({ packing: { threadSource: () => script } })
    await assert.rejects(packed(staging), isFault('storage_failed'), script)
    assert.deepEqual(openIn(stage), [])
  }
  assert.equal((await packed(stage.staging)).sha256, digest('sha256', image))
})

test('a clone that was cut short is lost', { skip }, async (t) => {
  const stage = await stagedOn('xfs', t)
  await captured(stage)
  const { taken } = await packed(stage.staging)
  fs.truncateSync(stage.file('disk.raw'), MIB)
  const again = packed(stage.staging, { from: taken[1]?.next ?? START, parts: 2 })
  await assert.rejects(again, isFault('staging_lost'))
})

test('several snapshots are packed at the same time by the same threads', { skip }, async (t) => {
  const stage = await stagedOn('xfs', t)
  const image = await captured(stage)
  const ids = ['one', 'two', 'three'] as StagingId[]
  for (const id of ids) await capture(stage.staging, id)
  const done = await Promise.all(ids.map((stagingId) => packed(stage.staging, { stagingId })))
  assert.deepEqual([...new Set(done.map(({ sha256 }) => sha256))], [digest('sha256', image)])
  await until(gentle, isNone)
})
