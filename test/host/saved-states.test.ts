import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import {
  chmodSync,
  copyFileSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { mkdir, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import { HostFault } from '../../src/core/errors.ts'
import type { VmId } from '../../src/core/ids.ts'
import { run } from './run.ts'
import { FrameDecoder } from '../../src/core/migration/frame-decoder.ts'
import { streamChecks } from '../../src/host/rounds/stream-checks.ts'
import { Pool } from '../../src/host/storage/pool.ts'
import { poolIdOf } from '../../src/host/pool/pool-marker.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { silentLog } from '../../src/log/log.ts'
import { isFault, monitor, published, savedStatesContract, terms } from '../contract/saved-states.contract.ts'
import { savedMovesContract } from '../contract/saved-moves.contract.ts'
import { cutOffAfter } from './file-calls.ts'
import {
  assertUnusable,
  backingFile,
  canAs,
  publishedOn,
  savedOn,
  tidied,
  writeAt,
} from './saved-states-stage.ts'
import type { SavedOnDisk } from './saved-states-stage.ts'

savedStatesContract('saved states on XFS', (t) => savedOn('xfs', t), { skip })
savedMovesContract('saved states on XFS', (t) => savedOn('xfs', t), { skip })
savedStatesContract('saved states on ext4', (t) => savedOn('ext4', t), { skip })

const MIB = 1024 * 1024
const id = 'web-1' as VmId
const other = 'web-2' as VmId
const stranger = 200_002
const never = new AbortController().signal

test('a published state takes no space for unused memory, and records its CRC-32', { skip }, async (t) => {
  const { file } = await publishedOn(t)
  const metadata = JSON.parse(readFileSync(file(id, 'metadata.json'), 'utf8'))
  const { size, blocks } = statSync(file(id, 'memory'))
  assert.equal(metadata.memory.length_bytes, size)
  assert.equal(metadata.memory.stored_bytes, blocks * 512)
  assert.ok(blocks * 512 < size / 1.5, 'holes were filled')
  assert.equal(metadata.memory.crc32, crc32(readFileSync(file(id, 'memory'))))
})

test('a memory that was moved keeps its holes', { skip }, async (t) => {
  const { states, file, userId, disk } = await publishedOn(t)
  const [{ lengthBytes = 0 } = {}, moved] = [await states.describe(id), 'moved-1' as VmId]
  await mkdir(dirname(disk(moved)))
  writeFileSync(disk(moved), 'a disk')
  const decoder = new FrameDecoder({ sizeBytes: lengthBytes, checks: streamChecks })
  const incoming = await states.openIncoming(moved, userId, lengthBytes)
  for await (const chunk of states.frames(id, 0, never))
    for (const frame of decoder.push(chunk)) await incoming.write(frame)
  await incoming.close()
  await states.publish(moved, terms, never)
  const [from, to] = [id, moved].map((vm) => statSync(file(vm, 'memory')))
  assert.ok(decoder.isWhole)
  assert.equal(to?.size, from?.size)
  assert.ok((to?.blocks ?? 0) > 0 && (to?.blocks ?? 0) <= (from?.blocks ?? 0), `${to?.blocks} blocks`)
})

test(
  'a monitor can write the one file of a save, can read the published state, and cannot create files; others have no access',
  { skip },
  async (t) => {
    const stage = await publishedOn(t)
    const { states, userId, file } = stage
    const { directory, writing, published: memory } = states.paths(id)
    await states.ensureDirectory(id)
    assert.ok(!canAs(userId, 'touch', writing))
    await states.ensureMemoryFile(id, userId)
    assert.ok(canAs(userId, 'truncate', '-s', '1', writing))
    assert.ok(canAs(userId, 'head', '-c1', memory))
    for (const uid of [userId, stranger]) {
      for (const place of [directory, dirname(memory), dirname(directory)]) {
        assert.ok(!canAs(uid, 'touch', join(place, 'x')))
        assert.ok(!canAs(uid, 'mkdir', join(place, 'x')))
        assert.ok(!canAs(uid, 'ln', '-s', memory, join(place, 'x')))
        assert.ok(!canAs(uid, 'ln', writing, join(place, 'x')))
      }
      assert.ok(!canAs(uid, 'truncate', '-s', '0', memory))
      assert.ok(!canAs(uid, 'mv', memory, writing))
      assert.ok(!canAs(uid, 'mv', writing, join(directory, 'x')))
      for (const path of [memory, writing]) assert.ok(!canAs(uid, 'rm', '-f', path))
      assert.ok(!canAs(uid, 'head', '-c1', file(id, 'metadata.json')))
    }
    for (const path of [memory, writing]) assert.ok(!canAs(stranger, 'head', '-c1', path))
    assert.ok(!canAs(stranger, 'truncate', '-s', '2', writing))
    assert.ok(!canAs(stranger, 'ls', directory))
    assert.deepEqual(readdirSync(directory), ['memory'])
  },
)

test('the directory for saves stays the same one, because units have it bound', { skip }, async (t) => {
  const stage = await publishedOn(t)
  const { states, userId } = stage
  const { directory } = states.paths(id)
  const { ino } = statSync(directory)
  await states.remove(id)
  await states.ensureMemoryFile(id, userId)
  assert.equal(statSync(directory).ino, ino)
})

test(
  'a directory that an older daemon gave to the monitor is taken back, its files are swept, and a save works in it',
  { skip },
  async (t) => {
    const stage = await publishedOn(t)
    const { states, userId } = stage
    const { directory, writing } = states.paths(id)
    await states.remove(id)
    chmodSync(directory, 0o700)
    await run(['chown', `${userId}:${userId}`, directory])
    assert.ok(canAs(userId, 'mkdir', '-p', join(directory, 'a/b')))
    assert.ok(canAs(userId, 'touch', join(directory, 'x')))
    assert.ok(canAs(userId, 'ln', '-s', stage.disk(id), writing))
    assert.equal((await states.inspect(id, monitor)).kind, 'absent')
    const { ino } = statSync(directory)
    await states.ensureMemoryFile(id, userId)
    assert.deepEqual(readdirSync(directory).toSorted(), ['a', 'memory'])
    assert.equal(statSync(directory).ino, ino)
    assert.ok(!canAs(userId, 'touch', join(directory, 'y')))
    assert.equal((await states.inspect(id, monitor)).kind, 'absent')
    await stage.save(id)
    await states.publish(id, terms, never)
    assert.equal((await states.inspect(id, monitor)).kind, 'present')
  },
)

for (const [trap, set] of Object.entries({
  'a symbolic link': (path: string, secret: string) => run(['ln', '-s', secret, path]),
  'a hard link': (path: string, secret: string) => run(['ln', secret, path]),
  'a directory': (path: string) => run(['mkdir', path]),
  'a FIFO': (path: string) => run(['mkfifo', path]),
})) {
  test(`${trap} in place of the memory is not followed, opened or emptied`, { skip }, async (t) => {
    const stage = await savedOn('xfs', t)
    const { states } = stage
    await stage.makeDisk(id)
    await states.ensureDirectory(id)
    const secret = join(stage.pool.mountPoint, 'secret')
    writeFileSync(secret, 'secret', { mode: 0o600 })
    await set(states.paths(id).writing, secret)
    await assert.rejects(states.publish(id, terms, never), isFault('save_failed'))
    await states.remove(id)
    await tidied(stage)
    assert.equal(readFileSync(secret, 'utf8'), 'secret')
    assert.equal(statSync(secret).mode & 0o777, 0o600)
  })
}

test(
  'metadata that is damaged, of later software or of another VM is refused with its reason',
  { skip },
  async (t) => {
    const stage = await publishedOn(t)
    const path = stage.file(id, 'metadata.json')
    const text = readFileSync(path, 'utf8')
    for (const [content, code, because] of [
      ['', 'saved_state_corrupt', /metadata is not whole/],
      [text.slice(0, -10), 'saved_state_corrupt', /metadata is not whole/],
      [text.replace('"crc32"', '"crc33"'), 'saved_state_corrupt', /metadata at \/memory\/crc3. /],
      [
        text.replace(/"inode": "\d+"/, '"inode": "x"'),
        'saved_state_corrupt',
        /\/disk\/inode must be a whole number/,
      ],
      [text.replace('"format": 2', '"format": 4'), 'saved_state_too_new', /format 4/],
      [text.replace('"web-1"', '"web-2"'), 'saved_state_foreign', /of VM web-2/],
    ] as const) {
      writeFileSync(path, content)
      await assertUnusable(stage, code, because)
    }
    writeFileSync(path, text)
    assert.equal((await stage.states.inspect(id, monitor)).kind, 'present')
    await rename(path, `${path}.away`)
    await assertUnusable(stage, 'saved_state_corrupt', /metadata is gone/)
  },
)

test(
  "another disk in the place of the VM's own is refused, even with the same bytes",
  { skip },
  async (t) => {
    const stage = await publishedOn(t)
    const disk = stage.disk(id)
    await run(['cp', '--preserve=all', disk, `${disk}.copy`])
    await rename(disk, `${disk}.own`)
    await assertUnusable(stage, 'saved_state_foreign', /its disk is gone/)
    await rename(`${disk}.copy`, disk)
    await assertUnusable(stage, 'saved_state_foreign', /disk is another one/)
    await rename(`${disk}.own`, disk)
    assert.equal((await stage.states.inspect(id, monitor)).kind, 'present')
    truncateSync(disk, 8 * MIB)
    await assertUnusable(stage, 'saved_state_foreign', /written after/)
  },
)

test('wherever the daemon is cut off in a publication, the state is whole or absent', { skip }, async (t) => {
  const stage = await savedOn('xfs', t)
  await stage.makeDisk(id)
  let cut = 0
  for (; ; cut += 1) {
    const states = stage.reopen()
    await states.ensureMemoryFile(id, stage.userId)
    await stage.save(id)
    const ended = await cutOffAfter(cut, () => states.publish(id, terms, never))
    const after = stage.reopen()
    const { kind } = await after.inspect(id, monitor)
    if (ended) {
      assert.equal(kind, 'present')
      break
    }
    assert.ok(['unfinished', 'present'].includes(kind), `after ${cut} calls it is ${kind}`)
    if (kind === 'present') await after.verify(id, never)
    await after.remove(id)
    assert.equal((await after.inspect(id, monitor)).kind, 'absent')
  }
  assert.ok(cut > 20, `only ${cut} calls`)
})

test('wherever the daemon is cut off in a removal, the state is whole or absent', { skip }, async (t) => {
  const stage = await savedOn('xfs', t)
  let cut = 0
  const kinds = new Set<string>()
  for (; ; cut += 1) {
    await published(stage)
    const states = stage.reopen()
    const ended = await cutOffAfter(cut, () => states.remove(id))
    const after = stage.reopen()
    const { kind } = await after.inspect(id, monitor)
    kinds.add(kind)
    if (kind === 'present') await after.verify(id, never)
    await after.remove(id)
    if (ended) break
  }
  assert.deepEqual([...kinds], ['present', 'absent'])
})

/** Shows the pool as the disk has it now, mounted beside it: the content after a power failure. */
async function afterPowerFailure({ pool }: SavedOnDisk, look: (pool: Pool) => Promise<void>): Promise<void> {
  const base = dirname(pool.mountPoint)
  const [image, mountPoint] = [join(base, 'power.img'), join(base, 'power')]
  copyFileSync(backingFile(pool), image)
  await mkdir(mountPoint, { recursive: true })
  await run(['mount', '-o', 'loop,nouuid', image, mountPoint])
  try {
    const directory = join(mountPoint, 'pool')
    await look(new Pool({ directory, poolId: await poolIdOf(directory), log: silentLog }))
  } finally {
    await run(['umount', mountPoint])
  }
}

test('a published state outlasts a power failure, whole and with its disk', { skip }, async (t) => {
  const stage = await savedOn('xfs', t)
  await stage.makeDisk(id)
  await stage.states.ensureMemoryFile(id, stage.userId)
  await stage.save(id)
  writeAt(stage.disk(id), MIB, Buffer.from('written last'))
  await stage.states.publish(id, terms, never)
  await afterPowerFailure(stage, async ({ savedStates }) => {
    assert.equal((await savedStates.inspect(id, monitor)).kind, 'present')
    await savedStates.verify(id, never)
    const disk = readFileSync(join(dirname(savedStates.paths(id).directory), 'disk.raw'))
    assert.equal(disk.subarray(MIB, MIB + 12).toString(), 'written last')
  })
})

test('a removed state stays removed through a power failure', { skip }, async (t) => {
  const stage = await publishedOn(t)
  await stage.states.remove(id)
  await afterPowerFailure(stage, async ({ savedStates }) => {
    assert.equal((await savedStates.inspect(id, monitor)).kind, 'absent')
  })
})

test('a state that is found removed stays so, even if the daemon is cut off then', { skip }, async (t) => {
  const stage = await savedOn('xfs', t)
  let found = 0
  for (let cut = 0; ; cut += 1) {
    await published(stage)
    const ended = await cutOffAfter(cut, () => stage.reopen().remove(id))
    const after = stage.reopen()
    if ((await after.inspect(id, monitor)).kind === 'absent') {
      found += 1
      await afterPowerFailure(stage, async ({ savedStates }) => {
        assert.equal((await savedStates.inspect(id, monitor)).kind, 'absent', `after ${cut} calls`)
      })
    }
    await after.remove(id)
    if (ended) break
  }
  assert.ok(found > 1)
})

test('a publication aborted at any time is whole or is given up, and leaves nothing', { skip }, async (t) => {
  const stage = await savedOn('xfs', t)
  const { states, userId } = stage
  await stage.makeDisk(id)
  const vm = dirname(states.paths(id).directory)
  const reason = new Error('traffic came')
  let givenUp = 0
  for (let turns = 0; ; turns += 1) {
    await states.ensureMemoryFile(id, userId)
    await stage.save(id)
    const controller = new AbortController()
    const publishing = states.publish(id, terms, controller.signal).then(
      () => 'present',
      (error: unknown) => {
        assert.equal(error, reason)
        return 'given up'
      },
    )
    for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate)
    controller.abort(reason)
    const end = await publishing
    if (end === 'present') {
      assert.equal((await states.inspect(id, monitor)).kind, 'present')
      await states.verify(id, never)
      break
    }
    givenUp += 1
    await states.remove(id)
    assert.deepEqual(readdirSync(vm).toSorted(), ['disk.json', 'disk.raw', 'save'])
    assert.equal((await states.inspect(id, monitor)).kind, 'absent')
  }
  assert.ok(givenUp > 10, `${givenUp} times`)
})

test('a deleted VM takes its saved state with it', { skip }, async (t) => {
  const stage = await publishedOn(t)
  await published(stage, other)
  await stage.pool.storage.remove(id)
  assert.equal((await stage.states.inspect(id, monitor)).kind, 'absent')
  assert.equal((await stage.states.inspect(other, monitor)).kind, 'present')
})

test(
  'a read-only pool keeps a saved state visible, and says so when it must be removed',
  { skip },
  async (t) => {
    const stage = await publishedOn(t)
    await stage.pool.mount('remount', 'ro')
    assert.equal((await stage.states.inspect(id, monitor)).kind, 'present')
    await stage.states.verify(id, never)
    await assert.rejects(stage.states.remove(id), isFault('storage_read_only'))
    assert.equal((await stage.states.inspect(id, monitor)).kind, 'present')
  },
)

test('an unmounted pool is unknown, and no fault contains a host path', { skip }, async (t) => {
  const stage = await publishedOn(t)
  await stage.pool.unmount()
  for (const ask of [
    () => stage.states.inspect(id, monitor),
    () => stage.states.remove(id),
    () => stage.states.verify(id, never),
  ]) {
    const error: unknown = await ask().then(
      () => assert.fail('it should have failed'),
      (reason: unknown) => reason,
    )
    assert.ok(error instanceof HostFault && error.code === 'storage_inspection_failed', errorChain(error))
    assert.ok(!errorChain(error).includes(stage.pool.mountPoint), errorChain(error))
  }
  await stage.pool.mount()
  assert.equal((await stage.states.inspect(id, monitor)).kind, 'present')
})
