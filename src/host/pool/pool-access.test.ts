import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually } from '../../../test/daemon/support/eventually.ts'
import { limits } from '../../config/limits.ts'
import { holdLease } from '../../../test/hold-lease.ts'
import { accessPool } from './pool-access.ts'
import { markPool } from './pool-marker.ts'
import { MEMORY } from './pool-paths.ts'
import type { TestContext } from 'node:test'

/** A pool whose time passes only when the test says so. */
async function poolOf(t: TestContext) {
  const base = mkdtempSync(join(tmpdir(), 'vmh-access-'))
  t.after(() => rmSync(base, { recursive: true }))
  const directory = join(base, 'pool')
  const { poolId } = await markPool(directory)
  let nowMs = 0
  const { paths, ready } = accessPool(directory, poolId, () => nowMs)
  return { paths, ready, pass: (ms: number): number => (nowMs += ms) }
}

test('what a removal has left is removed later, while files that are being made stay', async (t) => {
  const { paths, ready, pass } = await poolOf(t)
  writeFileSync(join(paths.tmp, 'image-of-an-earlier-run'), '')
  await ready()
  assert.deepEqual(readdirSync(paths.tmp), [])
  const left = paths.removed()
  mkdirSync(join(left, 'rounds'), { recursive: true })
  writeFileSync(join(left, 'disk.raw'), 'content')
  writeFileSync(join(paths.tmp, 'image-1'), '')
  await ready()
  assert.equal(readdirSync(paths.tmp).length, 2)
  pass(limits.poolSweepMs)
  await ready()
  await eventually(() => readdirSync(paths.tmp).length === 1)
  assert.deepEqual(readdirSync(paths.tmp), ['image-1'])
})

test('a file that was not finished, and not removed either, is removed once nothing can be making it', async (t) => {
  const { paths, ready, pass } = await poolOf(t)
  await ready()
  for (const [name, hours] of [
    ['image-1', 24],
    ['image-2', 26],
  ] as const) {
    writeFileSync(join(paths.tmp, name), 'content')
    const written = new Date(Date.now() - hours * 3_600_000)
    utimesSync(join(paths.tmp, name), written, written)
  }
  pass(limits.poolSweepMs)
  await ready()
  await eventually(() => readdirSync(paths.tmp).length === 1)
  assert.deepEqual(readdirSync(paths.tmp), ['image-1'])
})

test(
  'a start does not wait for a lease that a monitor holds on a discarded memory',
  { timeout: 5000 },
  async (t) => {
    const { paths, ready } = await poolOf(t)
    const left = join(paths.tmp, 'saved-1')
    mkdirSync(left)
    writeFileSync(join(left, MEMORY), 'memory')
    holdLease(t, join(left, MEMORY))
    await ready()
    assert.deepEqual(readdirSync(paths.tmp), [])
  },
)
