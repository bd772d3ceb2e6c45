import assert from 'node:assert/strict'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { terms } from '../../../test/contract/saved-states.contract.ts'
import { markOfTests } from '../../../test/record.ts'
import { HostFault } from '../../core/errors.ts'
import type { Sha256, UserId, VmId } from '../../core/ids.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { StagingId } from '../../core/snapshots/record.ts'
import { errorChain } from '../../log/error-chain.ts'
import { silentLog } from '../../log/log.ts'
import { library } from '../ffi/koffi.ts'
import { markPool } from '../pool/pool-marker.ts'
import { MEMORY, poolPaths } from '../pool/pool-paths.ts'
import { Pool } from './pool.ts'

/** linux/fcntl.h and asm-generic/fcntl.h. */
const F_SETLEASE = 1024
const F_WRLCK = 1

const fcntl = library('libc.so.6').func('int fcntl(int fd, int command, ...)')

const id = 'web-1' as VmId
const userId = (process.getuid?.() ?? 0) as UserId
const never = new AbortController().signal

/** Calls that open the disk of a VM whose monitor runs, or may run. */
const CALLS: Record<string, (pool: Pool) => Promise<unknown>> = {
  'a flush before a snapshot': ({ staging }) => staging.flushDisk(id, never),
  'the clone for a snapshot': ({ staging }) => staging.clone('nightly.op-1' as StagingId, id),
  'a round of a move': ({ rounds }) =>
    rounds.ensureRound({ id, arrival: 'a-1' as ArrivalId, number: 1 }, never),
  'a save': ({ savedStates }) => savedStates.publish(id, terms, never),
  'a growth': (pool) => {
    const disk = { id, userId, sizeMib: 2, rootfsSha256: 'ab'.repeat(32) as Sha256 }
    return pool.ensureDisk({ ...disk, mark: markOfTests, adopts: true }, never)
  },
}

/** Makes a pool with a disk on which this process holds a lease, as a monitor could. */
async function poolWithLease(t: TestContext): Promise<Pool> {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-lease-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const { poolId } = await markPool(directory)
  const paths = poolPaths(directory)
  mkdirSync(paths.save(id), { recursive: true })
  writeFileSync(join(paths.save(id), MEMORY), 'memory')
  writeFileSync(paths.disk(id), 'disk')
  // The kernel asks the holder for the lease with SIGIO, which ends a process without a handler.
  const keep = (): void => {}
  process.on('SIGIO', keep)
  t.after(() => process.off('SIGIO', keep))
  const holder = openSync(paths.disk(id), 'r')
  t.after(() => closeSync(holder))
  assert.equal(fcntl(holder, F_SETLEASE, 'int', F_WRLCK), 0)
  return new Pool({ directory, poolId, log: silentLog })
}

for (const [what, call] of Object.entries(CALLS)) {
  test(`${what} does not wait for a lease that a monitor holds on its disk`, { timeout: 5000 }, async (t) => {
    const pool = await poolWithLease(t)
    await assert.rejects(call(pool), (error) => {
      assert.ok(error instanceof HostFault)
      assert.equal(error.code, 'storage_failed')
      assert.match(errorChain(error), /VM web-1.*: EAGAIN: another process holds a lease on the file$/)
      return true
    })
  })
}
