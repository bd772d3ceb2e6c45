/** A real pool with saved guests in it, and the actions of their monitors. */
import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import assert from 'node:assert/strict'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Sha256, VmId } from '../../src/core/ids.ts'
import type { PoolSavedStates } from '../../src/host/saved/saved-states.ts'
import { monitor, published } from '../contract/saved-states.contract.ts'
import type { SavedStatesStage } from '../contract/saved-states.contract.ts'
import { until } from '../contract/until.ts'
import { poolOn } from './pool-on.ts'
import { markOfTests } from '../record.ts'
import type { FileSystem, PoolStage } from './pool-on.ts'

const MIB = 1024 * 1024
const never = new AbortController().signal
/** Offset in the data of a published memory. */
const IN_DATA = 3 * MIB + 4711

export type SavedOnDisk = SavedStatesStage & {
  readonly states: PoolSavedStates
  readonly pool: PoolStage
  readonly disk: (id: VmId) => string
  /** Returns the path of a file of a saved state. */
  readonly file: (id: VmId, name: 'memory' | 'metadata.json') => string
}

export async function savedOn(fileSystem: FileSystem, t: TestContext): Promise<SavedOnDisk> {
  const pool = await poolOn(fileSystem, t)
  const states = pool.storage.savedStates
  const { userId } = pool
  const disk = (id: VmId): string => join(pool.directory, 'disks', id, 'disk.raw')
  const file = (id: VmId, name: string): string => join(pool.directory, 'disks', id, 'saved', name)
  return {
    ...{ states, userId, pool, disk, file },
    makeDisk: async (id) => {
      if (fs.existsSync(disk(id))) return
      const rootfsSha256 = await rootfsIn(pool)
      await pool.storage.ensureDisk({ id, userId, sizeMib: 4, rootfsSha256, mark: markOfTests }, never)
    },
    save: (id) => writeMemory(states.paths(id).writing, userId),
    isReadable: (id) => canAs(userId, 'head', '-c1', states.paths(id).published),
    writeDisk: (id) => writeAt(disk(id), 0, randomBytes(512)),
    damage: (id) => {
      const byte = fs.readFileSync(file(id, 'memory'))[IN_DATA] ?? 0
      writeAt(file(id, 'memory'), IN_DATA, Buffer.of(byte ^ 1))
    },
    loseMemory: (id) => fs.unlinkSync(file(id, 'memory')),
    reopen: () => pool.reopen().savedStates,
    contentOf: (id) => fs.readFileSync(file(id, 'memory')),
    setInSight: pool.setInSight,
  }
}

/** Writes memory as a monitor does: with holes for unused memory, also at its end. */
export function writeMemory(path: string, userId: number, sizeMib = 8): void {
  fs.writeFileSync(path, '')
  for (let at = 1; at < sizeMib - 1; at += 2) writeAt(path, at * MIB + 4096, randomBytes(MIB))
  fs.truncateSync(path, sizeMib * MIB)
  fs.chownSync(path, userId, userId)
}

export function writeAt(path: string, at: number, bytes: Uint8Array): void {
  const fd = fs.openSync(path, 'r+')
  try {
    fs.writeSync(fd, bytes, 0, bytes.length, at)
  } finally {
    fs.closeSync(fd)
  }
}

/** Whether a monitor that runs as this user could run that command. */
export const canAs = (uid: number, ...[program, ...args]: [string, ...string[]]): boolean =>
  spawnSync(program, args, { uid, gid: uid, stdio: 'ignore' }).status === 0

async function rootfsIn({ storage, offer }: PoolStage): Promise<Sha256> {
  const content = randomBytes(MIB)
  const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
  await storage.ensureImage(sha256, await offer(content), never)
  return sha256
}

/** Returns the file that contains the pool's file system. */
export const backingFile = ({ mountPoint }: PoolStage): string => join(dirname(mountPoint), 'fs.img')

export async function publishedOn(t: TestContext): Promise<SavedOnDisk> {
  const stage = await savedOn('xfs', t)
  await published(stage)
  return stage
}

/** Waits until removed files are gone for good. */
export const tidied = ({ pool }: SavedOnDisk): Promise<unknown> =>
  until(
    () => fs.readdirSync(join(pool.directory, 'tmp')),
    (names) => names.length === 0,
  )

export async function assertUnusable({ states }: SavedOnDisk, code: string, because: RegExp): Promise<void> {
  const state = await states.inspect('web-1' as VmId, monitor)
  assert.ok(state.kind === 'unusable', JSON.stringify(state))
  assert.equal(state.code, code)
  assert.match(state.because, because)
}
