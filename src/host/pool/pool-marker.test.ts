import assert from 'node:assert/strict'
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { HostFault } from '../../core/errors.ts'
import { errorChain } from '../../log/error-chain.ts'
import { markPool, PoolSight } from './pool-marker.ts'
import { poolPaths } from './pool-paths.ts'
import type { TestContext } from 'node:test'

function folderOf(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'pool-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return join(directory, 'new', 'pool')
}

async function refusalOf(directory: string, poolId: string): Promise<string> {
  const error = await new PoolSight(poolPaths(directory), poolId).verify().then(
    () => assert.fail('it was taken for the pool'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof HostFault && error.code === 'storage_inspection_failed')
  return errorChain(error)
}

test('marking makes a pool, and marking it again keeps its id', async (t) => {
  const directory = folderOf(t)
  const { poolId } = await markPool(directory)
  const marker = JSON.parse(readFileSync(join(directory, 'vmhostd-pool.json'), 'utf8'))
  assert.equal(marker.pool_id, poolId)
  assert.equal(marker.version, 1)
  assert.ok(!Number.isNaN(Date.parse(marker.created_at)))
  assert.equal((await markPool(directory)).poolId, poolId)
  await new PoolSight(poolPaths(directory), poolId).verify()
})

test('with any umask monitors can pass through the pool, and other users cannot look inside', async (t) => {
  const directory = folderOf(t)
  const umask = process.umask(0o077)
  t.after(() => process.umask(umask))
  await markPool(directory)
  const modes = ['.', 'images', 'disks', 'tmp'].map((name) => statSync(join(directory, name)).mode & 0o777)
  assert.deepEqual(modes, [0o711, 0o711, 0o711, 0o700])
  assert.deepEqual(readdirSync(join(directory, 'tmp')), [])
})

test('a pool of another id, or of another version, is refused', async (t) => {
  const directory = folderOf(t)
  const { poolId } = await markPool(directory)
  assert.match(await refusalOf(directory, 'another'), new RegExp(`the pool there is ${poolId}, not another$`))
  writeFileSync(join(directory, 'vmhostd-pool.json'), JSON.stringify({ pool_id: poolId, version: 2 }))
  assert.match(await refusalOf(directory, poolId), /another version/)
})

test('a pool that was in sight is refused once another lies in its place', async (t) => {
  const directory = folderOf(t)
  const { poolId } = await markPool(directory)
  const sight = new PoolSight(poolPaths(directory), poolId)
  await sight.verify()
  await sight.verify()
  renameSync(directory, `${directory}-away`)
  const other = await markPool(directory)
  const refused = new RegExp(`the pool there is ${other.poolId}, not ${poolId}$`)
  for (const _look of [1, 2])
    await assert.rejects(sight.verify(), ({ cause }: Error) => refused.test(errorChain(cause)))
  rmSync(directory, { recursive: true })
  renameSync(`${directory}-away`, directory)
  await sight.verify()
})

test('a marker that is missing or damaged is refused', async (t) => {
  const directory = folderOf(t)
  const { poolId } = await markPool(directory)
  for (const text of ['', '{', 'null', '[]', '{"version": 1}']) {
    writeFileSync(join(directory, 'vmhostd-pool.json'), text)
    assert.match(await refusalOf(directory, poolId), /it has no pool id/)
  }
  rmSync(join(directory, 'vmhostd-pool.json'))
  assert.match(await refusalOf(directory, poolId), /ENOENT: no such file or directory$/)
})

test('a pool that lacks one of its directories is refused', async (t) => {
  const directory = folderOf(t)
  const { poolId } = await markPool(directory)
  for (const name of ['images', 'disks', 'tmp']) {
    rmdirSync(join(directory, name))
    assert.match(await refusalOf(directory, poolId), new RegExp(`it lacks the directory ${name}$`))
    await markPool(directory)
  }
})
