import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
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

test('the pool of the records is not lost because it lacks a directory', async (t) => {
  const { pool, check } = await poolStage(t)
  rmdirSync(join(pool, 'tmp'))
  assert.match(await check(false), /or not whole: .*: it lacks the directory tmp$/)
  assert.match(
    await check(true),
    /pool is the pool of these records, so it is not lost: make it whole and leave out --pool-lost: .*: it lacks the directory tmp$/,
  )
})

test('a pool whose marker cannot be read may be there, so it is not lost', async (t) => {
  const { pool, check } = await poolStage(t)
  const marker = join(pool, 'vmhostd-pool.json')
  const unknown =
    /pool does not show whether it is the pool of these records, .*: correct what is named here, or mount the new file system there, and run this again: /
  const assertUnknown = async (why: RegExp): Promise<void> => {
    assert.match(await check(false), NOT_IN_SIGHT)
    assert.match(await check(false), why)
    assert.match(await check(true), unknown)
    assert.match(await check(true), why)
  }
  writeFileSync(marker, '{')
  await assertUnknown(/it has no pool id$/)
  rmSync(marker)
  mkdirSync(marker)
  await assertUnknown(/EISDIR: /)
})
