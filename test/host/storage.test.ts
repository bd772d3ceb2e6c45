import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { ImageRef } from '../../src/ports/storage.ts'
import type { Sha256, UserId, VmId } from '../../src/core/ids.ts'
import { run } from './run.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { imageKindsContract } from '../contract/image-kinds.contract.ts'
import { imageMovesContract } from '../contract/image-moves.contract.ts'
import { rebuildsContract } from '../contract/rebuilds.contract.ts'
import { storageContract } from '../contract/storage.contract.ts'
import { markOfTests } from '../record.ts'
import { poolOn } from './pool-on.ts'
import type { PoolStage } from './pool-on.ts'

storageContract('pool on XFS', (t) => poolOn('xfs', t), { skip })
imageKindsContract('pool on XFS', (t) => poolOn('xfs', t), { skip })
storageContract('pool on ext4', (t) => poolOn('ext4', t), { skip })
rebuildsContract('pool on XFS', (t) => poolOn('xfs', t), { skip })
rebuildsContract('pool on ext4', (t) => poolOn('ext4', t), { skip })
imageMovesContract('pool on XFS', (t) => poolOn('xfs', t), { skip })

const MIB = 1024 * 1024
const id = 'web-1' as VmId
const other = 'web-2' as VmId
const never = new AbortController().signal
const digest = 'ab'.repeat(32)
const seed = {
  digest,
  files: [
    { name: 'meta-data', content: 'instance-id: "i-1"\n' },
    { name: 'user-data', content: '#cloud-config\n' },
    { name: 'network-config', content: 'version: 2\n' },
  ],
}

const sha256Of = (content: Uint8Array): Sha256 => createHash('sha256').update(content).digest('hex') as Sha256

async function fetched({ storage, offer }: PoolStage, content: Uint8Array): Promise<Sha256> {
  const sha256 = sha256Of(content)
  await storage.ensureImage(sha256, await offer(content), never)
  return sha256
}

async function faultOf(promise: Promise<unknown>): Promise<HostFault> {
  const error = await promise.then(
    () => assert.fail('it should have failed'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof HostFault, errorChain(error))
  return error
}

const usedMib = (path: string): number => {
  const { blocks, bfree, bsize } = statfsSync(path)
  return ((blocks - bfree) * bsize) / MIB
}
const temporaries = ({ directory }: PoolStage): string[] => readdirSync(join(directory, 'tmp'))

/** Whether a monitor that runs as this user could run that command. */
const canAs = (uid: number, ...[program, ...args]: [string, ...string[]]): boolean =>
  spawnSync(program, args, { uid, gid: uid, stdio: 'ignore' }).status === 0

test('pool on XFS: a disk shares the blocks of its image', { skip }, async (t) => {
  const stage = await poolOn('xfs', t)
  assert.equal(stage.reflink, true)
  const rootfsSha256 = await fetched(stage, randomBytes(64 * MIB))
  const before = usedMib(stage.mountPoint)
  await stage.storage.ensureDisk(
    { id, userId: stage.userId, sizeMib: 1000, rootfsSha256, mark: markOfTests },
    never,
  )
  assert.ok(usedMib(stage.mountPoint) - before < 4)
})

test('pool on ext4: a disk is copied, holes stay holes, and set-up says so', { skip }, async (t) => {
  const stage = await poolOn('ext4', t)
  assert.equal(stage.reflink, false)
  const content = Buffer.alloc(64 * MIB)
  randomBytes(MIB).copy(content, 20 * MIB)
  const rootfsSha256 = await fetched(stage, content)
  await stage.storage.ensureDisk(
    { id, userId: stage.userId, sizeMib: 100, rootfsSha256, mark: markOfTests },
    never,
  )
  const { disk, kernel } = stage.storage.files(id, [{ role: 'kernel', sha256: rootfsSha256 }])
  for (const path of [disk, kernel])
    assert.ok(statSync(path).blocks * 512 < 2 * MIB, `${path} is not a sparse file`)
  const copy = readFileSync(disk)
  assert.equal(copy.length, 100 * MIB)
  assert.ok(copy.subarray(0, content.length).equals(content))
})

test('a monitor reaches its own and shared files, and no others', { skip }, async (t) => {
  const stage = await poolOn('xfs', t)
  const { storage } = stage
  const [mine, theirs] = [200_001, 200_002] as [UserId, UserId]
  const rootfsSha256 = await fetched(stage, randomBytes(MIB))
  for (const [vm, userId] of [
    [id, mine],
    [other, theirs],
  ] as const) {
    await storage.ensureDisk({ id: vm, userId, sizeMib: 2, rootfsSha256, mark: markOfTests }, never)
    await storage.ensureSeed(vm, userId, seed)
  }
  const images: ImageRef[] = [{ role: 'kernel', sha256: rootfsSha256 }]
  const [files, foreign] = [storage.files(id, images), storage.files(other, images)]
  for (const path of [files.disk, files.seed, files.kernel]) assert.ok(canAs(mine, 'head', '-c1', path), path)
  assert.ok(canAs(mine, 'test', '-w', files.disk))
  for (const path of [files.seed, files.kernel]) assert.ok(!canAs(mine, 'test', '-w', path), path)
  for (const path of [foreign.disk, foreign.seed]) assert.ok(!canAs(mine, 'head', '-c1', path), path)
  for (const path of [dirname(files.disk), dirname(dirname(files.disk)), dirname(files.kernel)]) {
    assert.ok(!canAs(mine, 'ls', path) && !canAs(mine, 'touch', join(path, 'x')), path)
  }
})

/** The names that a reader sees: one that knows Joliet, and one that knows no extension. */
const READERS = [
  ['norock', (name: string) => name],
  ['nojoliet', (name: string) => name.toUpperCase()],
] as const

test(
  'a seed disk is labelled cidata, has its files, and is the same bytes every time',
  { skip },
  async (t) => {
    const { storage, userId, mountPoint } = await poolOn('xfs', t)
    await storage.ensureSeed(id, userId, seed)
    await storage.ensureSeed(other, userId, seed)
    const path = storage.files(id, [{ role: 'kernel', sha256: digest as Sha256 }]).seed
    const twin = storage.files(other, [{ role: 'kernel', sha256: digest as Sha256 }]).seed
    assert.ok(readFileSync(path).equals(readFileSync(twin)))
    assert.match(
      (await run(['blkid', '-p', path])).stdout,
      / UUID="2000-01-01.* LABEL="cidata" .*TYPE="iso9660"/,
    )
    for (const [names, nameOf] of READERS) {
      const out = join(mountPoint, names)
      await run(['xorriso', '-read_fs', names, '-osirrox', 'on', '-indev', path, '-extract', '/', out])
      for (const { name, content } of seed.files)
        assert.equal(readFileSync(join(out, nameOf(name)), 'utf8'), content)
    }
  },
)

test('an unmounted pool is unknown, and is itself again when it is mounted', { skip }, async (t) => {
  const stage = await poolOn('xfs', t)
  const { storage, userId } = stage
  const rootfsSha256 = await fetched(stage, randomBytes(MIB))
  await storage.ensureDisk({ id, userId, sizeMib: 2, rootfsSha256, mark: markOfTests }, never)
  await stage.unmount()
  for (const look of [() => storage.inspect(id, []), () => storage.list(), () => storage.remove(id)]) {
    assert.equal((await faultOf(look())).code, 'storage_inspection_failed')
  }
  await stage.mount()
  assert.partialDeepStrictEqual((await storage.inspect(id, [])).disk, { kind: 'present', sizeMib: 2 })
})

test('another pool in its place is not taken for it', { skip }, async (t) => {
  const stage = await poolOn('xfs', t)
  const fault = await faultOf(stage.reopen({ poolId: 'another' }).inspect(id, []))
  assert.equal(fault.code, 'storage_inspection_failed')
})

test('a read-only pool can be inspected, and says so when it must be written', { skip }, async (t) => {
  const stage = await poolOn('xfs', t)
  const { storage, userId } = stage
  const rootfsSha256 = await fetched(stage, randomBytes(MIB))
  const content = randomBytes(1000)
  const source = await stage.offer(content)
  await storage.ensureDisk({ id, userId, sizeMib: 2, rootfsSha256, mark: markOfTests }, never)
  await stage.mount('remount', 'ro')
  assert.partialDeepStrictEqual((await storage.inspect(id, [])).disk, { kind: 'present', sizeMib: 2 })
  for (const write of [
    () => storage.ensureImage(sha256Of(content), source, never),
    () => storage.ensureDisk({ id, userId, sizeMib: 3, rootfsSha256, mark: markOfTests }, never),
    () => storage.ensureDisk({ id: other, userId, sizeMib: 2, rootfsSha256, mark: markOfTests }, never),
    () => storage.ensureSeed(id, userId, seed),
    () => storage.remove(id),
  ]) {
    assert.equal((await faultOf(write())).code, 'storage_read_only')
  }
})

test('a full pool says so, leaves no unfinished files, and works again with room', { skip }, async (t) => {
  const stage = await poolOn('ext4', t)
  const { storage, userId, mountPoint } = stage
  const rootfsSha256 = await fetched(stage, randomBytes(4 * MIB))
  const content = randomBytes(8 * MIB)
  const source = await stage.offer(content)
  const filler = join(mountPoint, 'filler')
  const { bavail, bsize } = statfsSync(mountPoint)
  await run(['fallocate', '-l', String(bavail * bsize - 3 * MIB), filler])
  const image = storage.ensureImage(sha256Of(content), source, never)
  assert.equal((await faultOf(image)).code, 'storage_full')
  const disk = { id, userId, sizeMib: 8, rootfsSha256, mark: markOfTests }
  assert.equal((await faultOf(storage.ensureDisk(disk, never))).code, 'storage_full')
  const large = { ...seed, files: [{ name: 'user-data', content: 'x'.repeat(4 * MIB) }] }
  assert.equal((await faultOf(storage.ensureSeed(id, userId, large))).code, 'storage_full')
  assert.deepEqual(temporaries(stage), [])
  writeFileSync(filler, '')
  await storage.ensureImage(sha256Of(content), source, never)
  await storage.ensureDisk(disk, never)
})

test('unfinished files of a crash are swept when the pool is first used again', { skip }, async (t) => {
  const stage = await poolOn('xfs', t)
  writeFileSync(join(stage.directory, 'tmp', 'disk-of-a-former-life'), 'x')
  await stage.storage.inspect(id, [])
  assert.equal(temporaries(stage).length, 1)
  await fetched(stage, randomBytes(1000))
  assert.deepEqual(temporaries(stage), [])
})

test('a copy that is aborted stops at once and leaves nothing', { skip }, async (t) => {
  const stage = await poolOn('ext4', t)
  const { storage, userId } = stage
  const rootfsSha256 = await fetched(stage, randomBytes(100 * MIB))
  const controller = new AbortController()
  const reason = new Error('the VM is being deleted')
  const making = storage.ensureDisk(
    { id, userId, sizeMib: 100, rootfsSha256, mark: markOfTests },
    controller.signal,
  )
  while (temporaries(stage).length === 0) await new Promise(setImmediate)
  controller.abort(reason)
  await assert.rejects(making, reason)
  assert.deepEqual(temporaries(stage), [])
  assert.deepEqual((await storage.inspect(id, [])).disk, { kind: 'absent' })
})

test('no fault contains a host path', { skip }, async (t) => {
  const stage = await poolOn('xfs', t)
  const { storage, userId, mountPoint } = stage
  await stage.unmount()
  const faults = [await faultOf(storage.inspect(id, [])), await faultOf(storage.remove(id))]
  await stage.mount()
  faults.push(
    await faultOf(
      storage.ensureDisk(
        { id, userId, sizeMib: 1, rootfsSha256: digest as Sha256, mark: markOfTests },
        never,
      ),
    ),
  )
  for (const fault of faults) assert.ok(!errorChain(fault).includes(mountPoint), errorChain(fault))
})
