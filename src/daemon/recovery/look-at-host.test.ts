import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { sleepStage } from '../../../test/sleep-stage.ts'
import { markPool } from '../../host/pool/pool-marker.ts'
import { errorChain } from '../../log/error-chain.ts'
import { checkPool, lookAtVm } from './look-at-host.ts'
import type { TestContext } from 'node:test'

test('a look finds a guest that runs, one that sleeps, and whose they are', async (t) => {
  const { host, store, vm, fallAsleep } = await sleepStage(t)
  const look = async (storeId: string) => {
    const { unit, disk, isSaved } = await lookAtVm(host, vm(), storeId)
    return [unit.kind, disk.kind, isSaved]
  }
  assert.deepEqual(await look(store.storeId), ['active', 'present', false])
  assert.deepEqual(await look('other'), ['foreign', 'foreign', false])
  await fallAsleep()
  assert.deepEqual(await look(store.storeId), ['absent', 'present', true])
})

/** Makes a pool, and returns its directory with how it is judged for records of it or of another pool. */
async function poolStage(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'look-at-host-'))
  t.after(() => rmSync(root, { recursive: true }))
  const pool = join(root, 'pool')
  const { poolId } = await markPool(pool)
  /** Returns the refusal; `accepted` if there is none. */
  const check = (isLost: boolean, ofRecords = poolId): Promise<string> =>
    checkPool({ poolDirectory: pool }, ofRecords, { isLost }).then(() => 'accepted', errorChain)
  return { pool, poolId, check }
}

const NOT_IN_SIGHT = /pool is not the pool of these records, .*: mount that one there; .* add --pool-lost: /

test('the pool of the records is in sight, and is not lost', async (t) => {
  const { check } = await poolStage(t)
  assert.equal(await check(false), 'accepted')
  assert.match(
    await check(true),
    /pool is the pool of these records, so it is not lost: leave out --pool-lost$/,
  )
})

test('a pool is lost by the word of the operator if no pool is in its place, or another one', async (t) => {
  const { pool, poolId, check } = await poolStage(t)
  assert.match(await check(false, 'another'), NOT_IN_SIGHT)
  assert.match(await check(false, 'another'), new RegExp(`the pool there is ${poolId}, not another$`))
  assert.equal(await check(true, 'another'), 'accepted')
  rmSync(pool, { recursive: true })
  for (const _look of ['no directory', 'an empty one']) {
    assert.match(await check(false), NOT_IN_SIGHT)
    assert.match(await check(false), /ENOENT: no such file or directory$/)
    assert.equal(await check(true), 'accepted')
    mkdirSync(pool, { recursive: true })
  }
})
