import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { imageThreadBesideThis } from './image-writer.ts'
import { Images } from './images.ts'
import { limits } from '../../config/limits.ts'
import { silentLog } from '../../log/log.ts'
import { poolGate } from '../files/pool-files.ts'
import { poolPaths } from '../pool/pool-paths.ts'
import type { TestContext } from 'node:test'
import type { Sha256 } from '../../core/ids.ts'

const sha256 = 'ab'.repeat(32) as Sha256

function stage(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'images-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const paths = poolPaths(directory)
  for (const path of [paths.images, paths.tmp]) mkdirSync(path)
  writeFileSync(paths.image(sha256), 'image')
  const bounds = { bytesMax: 1, reserveBytes: 0, stallMs: 1, totalMs: 1 }
  const terms = { ...bounds, thread: imageThreadBesideThis, log: silentLog }
  const images = new Images(paths, terms, 1)
  return { paths, images }
}

test('an image that is being cloned to a disk is not removed, and afterwards it is', async (t) => {
  const { paths, images } = stage(t)
  const ends = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  const uses = ends.map(({ promise }) => images.using(sha256, () => promise))
  await images.remove(sha256, () => true)
  ends[0].resolve()
  await uses[0]
  await images.remove(sha256, () => true)
  assert.ok(existsSync(paths.image(sha256)))
  ends[1].reject(new Error('the disk is full'))
  await assert.rejects(Promise.all(uses))
  await images.remove(sha256, () => true)
  assert.deepEqual([readdirSync(paths.images), readdirSync(paths.tmp)], [[], []])
})

test('an image is not removed if a use of it begins while its removal waits for the pool', async (t) => {
  const { paths, images } = stage(t)
  const { promise: isFree, resolve: free } = Promise.withResolvers<void>()
  const calls = Array.from({ length: limits.poolCallsMax }, () => poolGate.calls.take(() => isFree))
  const removing = images.remove(sha256, () => true)
  const { promise: isRead, resolve: read } = Promise.withResolvers<void>()
  const use = images.using(sha256, () => isRead)
  free()
  assert.equal(await removing, false)
  assert.ok(existsSync(paths.image(sha256)))
  read()
  await Promise.all([use, ...calls])
})

test('removing an image that does not exist succeeds', async (t) => {
  const { images } = stage(t)
  await images.remove('cd'.repeat(32) as Sha256, () => true)
})
