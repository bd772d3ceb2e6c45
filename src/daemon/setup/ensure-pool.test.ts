import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../../config/config.ts'
import { markPool, poolIdOf } from '../../host/pool/pool-marker.ts'
import { Restoring } from '../../store/backup/restoring.ts'
import { writeBackup } from '../../store/backup/write-backup.ts'
import { Store } from '../../store/store.ts'
import { ensurePool } from './ensure-pool.ts'
import { SetupReport } from './setup-report.ts'
import type { TestContext } from 'node:test'

/** A host whose records are of a pool, with a real directory for the pool. */
async function stage(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'ensure-pool-'))
  t.after(() => rmSync(root, { recursive: true }))
  const [state, pool] = [join(root, 'state'), join(root, 'pool')]
  mkdirSync(state)
  const text = `state_directory = "${state}"\n[storage]\npool_directory = "${pool}"`
  const config = parseConfig(text, { path: 'config.toml', hostname: 'host-1' })
  const records = (): Store => new Store(state, { first: 600_000, count: 10 })
  const ensure = async (replace = false) => {
    const report = new SetupReport()
    await ensurePool({ config, replace, markPool, report })
    return report.text
  }
  const poolOfRecords = (): string | undefined => {
    const store = records()
    const { poolId } = store
    store.close()
    return poolId
  }
  await ensure()
  const store = records()
  store.rememberPool(await poolIdOf(pool))
  store.close()
  return { state, pool, records, ensure, poolOfRecords }
}

test('the pool of the records is kept', async (t) => {
  const { ensure, pool, poolOfRecords } = await stage(t)
  assert.match(await ensure(true), /kept .*storage pool, marked/)
  assert.equal(poolOfRecords(), await poolIdOf(pool))
})

test('a pool that is out of sight is not replaced by mistake', async (t) => {
  const { ensure, pool, poolOfRecords } = await stage(t)
  const known = poolOfRecords()
  rmSync(pool, { recursive: true })
  await assert.rejects(ensure(), (error: Error) => {
    assert.ok(
      error.message.includes(
        `${pool} is not a pool, and the records of this host are of pool ${known}: mount`,
      ),
    )
    return true
  })
  assert.ok(!existsSync(pool))
  await markPool(pool)
  await assert.rejects(ensure(), /is pool .*, and the records of this host are of pool/)
  assert.equal(poolOfRecords(), known)
})

test('a pool that is lost is replaced on request, while no daemon runs', async (t) => {
  const { ensure, pool, records, poolOfRecords } = await stage(t)
  const known = poolOfRecords()
  rmSync(pool, { recursive: true })
  const daemon = records()
  await assert.rejects(ensure(true), /the daemon runs: stop it for --replace-pool/)
  daemon.close()
  assert.ok(!existsSync(pool))
  assert.match(
    await ensure(true),
    new RegExp(`changed .*in place of ${known}; VMs on record, without their disks: 0`),
  )
  assert.equal(poolOfRecords(), await poolIdOf(pool))
  assert.notEqual(poolOfRecords(), known)
  assert.match(await ensure(), /kept .*storage pool, marked/)
})

test('records that cannot be read are named, with what to do', async (t) => {
  const { ensure, state } = await stage(t)
  writeFileSync(join(state, 'vmhostd.db'), 'x'.repeat(5000))
  await assert.rejects(ensure(), /vmhostd\.db is damaged: .*: put back a backup/)
})

test('records that were put back on another machine go on with its pool', async (t) => {
  const { state, pool, ensure, poolOfRecords } = await stage(t)
  const file = join(state, '../host.backup')
  writeBackup(state, file, { about: { madeAtMs: 1, version: '1.2.3', hostId: 'host-1' }, files: [] })
  const known = poolOfRecords()
  for (const lost of [state, pool]) rmSync(lost, { recursive: true })
  mkdirSync(state)
  const at = { stateDirectory: state, directory: join(state, 'restore.new'), locks: true }
  new Restoring(file, at, { first: 600_000, count: 10 }).putBack([], 1_800_000_000_000)
  await assert.rejects(ensure(), /is not a pool, and the records of this host are of pool/)
  assert.match(await ensure(true), new RegExp(`changed .*in place of ${known}`))
  assert.equal(poolOfRecords(), await poolIdOf(pool))
})
