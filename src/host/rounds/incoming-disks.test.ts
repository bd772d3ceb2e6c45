import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { ArrivalId } from '../../core/migration/departure.ts'
import { NoAnswer } from '../files/bounded-calls.ts'
import { GatedFile } from '../files/gated-file.ts'
import { accessPool } from '../pool/pool-access.ts'
import { markPool } from '../pool/pool-marker.ts'
import { PoolIncomingDisks } from './incoming-disks.ts'

const arrival = 'a-1' as ArrivalId
const SIZE_BYTES = 1024 * 1024

async function disksIn(t: TestContext): Promise<PoolIncomingDisks> {
  const base = mkdtempSync(join(tmpdir(), 'vmh-incoming-'))
  t.after(() => rmSync(base, { recursive: true }))
  const directory = join(base, 'pool')
  const { poolId } = await markPool(directory)
  return new PoolIncomingDisks(accessPool(directory, poolId))
}

for (const number of [1, 2])
  test(`a disk whose length was set without an answer before round ${number} is not written to again, until it is removed`, async (t) => {
    const disks = await disksIn(t)
    const open = async (round: number): Promise<void> =>
      (await disks.open(arrival, { number: round, sizeBytes: SIZE_BYTES })).close()
    if (number > 1) await open(1)
    const truncations = t.mock.method(GatedFile.prototype, 'truncate')
    truncations.mock.mockImplementationOnce(() => Promise.reject(new NoAnswer('no answer')))
    await assert.rejects(open(number), { code: 'storage_failed' })
    await assert.rejects(open(number), { code: 'round_lost' })
    await disks.remove(arrival)
    await open(1)
  })
