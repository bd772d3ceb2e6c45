/** A real pool with disks that move, and what their guests do. */
import { spawnSync } from 'node:child_process'
import assert from 'node:assert/strict'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import type { ArrivalId } from '../../src/core/migration/departure.ts'
import type { Pool } from '../../src/host/storage/pool.ts'
import type { BothSides, RoundsStage } from '../contract/disk-rounds-stage.ts'
import { poolOn } from './pool-on.ts'
import type { FileSystem, PoolStage } from './pool-on.ts'
import { writeAt } from './saved-states-stage.ts'

export type RoundsOnDisk = RoundsStage & {
  readonly pool: PoolStage
  readonly disk: (id: VmId) => string
  readonly round: (id: VmId, arrival: ArrivalId, number: number) => string
  readonly incoming: (arrival: ArrivalId) => string
}

const BLOCK_BYTES = 64 * 1024

export async function roundsOn(fileSystem: FileSystem, t: TestContext): Promise<RoundsOnDisk> {
  const pool = await poolOn(fileSystem, t)
  const { directory, userId, storage, setInSight } = pool
  const disk = (id: VmId): string => join(directory, 'disks', id, 'disk.raw')
  const sidesOf = ({ rounds, incomingDisks }: Pool): BothSides => ({ rounds, incomingDisks })
  return {
    ...sidesOf(storage),
    ...{ pool, disk, userId, setInSight },
    round: (id, arrival, number) => join(directory, 'disks', id, 'rounds', arrival, `${number}.raw`),
    incoming: (arrival) => join(directory, 'incoming', `${arrival}.raw`),
    makeDisk: (id, bytes, sizeBytes) => {
      fs.mkdirSync(dirname(disk(id)), { recursive: true })
      fs.writeFileSync(disk(id), '')
      for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
        const block = bytes.subarray(at, at + BLOCK_BYTES)
        if (block.some((byte) => byte !== 0)) writeAt(disk(id), at, block)
      }
      fs.truncateSync(disk(id), sizeBytes)
    },
    writeDisk: (id, offset, bytes) => writeAt(disk(id), offset, bytes),
    punchDisk: (id, offset, length) => {
      const args = ['--punch-hole', '--offset', String(offset), '--length', String(length), disk(id)]
      assert.equal(spawnSync('fallocate', args).status, 0)
    },
    growDisk: (id, sizeBytes) => fs.truncateSync(disk(id), sizeBytes),
    contentOf: (id) => fs.readFileSync(disk(id)),
    lookAt: async (id) => (await storage.inspect(id, [])).disk,
    reopen: () => sidesOf(pool.reopen()),
  }
}
