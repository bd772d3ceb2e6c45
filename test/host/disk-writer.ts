/**
 * A guest that writes to its disk without pause, in a process of its own, until its standard input ends: past the page
 * cache and through it, in blocks and in odd pieces, with discards and with zeros. Arguments: the disk, and a seed.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { mapFile } from '../../src/host/ffi/map-file.ts'
import { punchHole } from '../../src/host/ffi/file-extents.ts'
import { randomFrom } from '../sim/random.ts'

const BLOCK = 4096
const PIECE_BLOCKS_MAX = 32

const [path = '', seed = '1'] = process.argv.slice(2)
const random = randomFrom(Number(seed))
const upTo = (max: number): number => Math.floor(random() * max)

const direct = fs.openSync(path, fs.constants.O_RDWR | fs.constants.O_DIRECT)
const buffered = fs.openSync(path, 'r+')

/** Memory that begins at a page, as O_DIRECT needs. */
function pages(bytes: number): Uint8Array {
  const name = join(tmpdir(), `disk-writer-${process.pid}`)
  const fd = fs.openSync(name, 'w+')
  fs.ftruncateSync(fd, bytes)
  fs.unlinkSync(name)
  return new Uint8Array(mapFile(fd, bytes).view())
}

const memory = pages(PIECE_BLOCKS_MAX * BLOCK)
let counter = 0

/** Makes a stretch read as zeros and keeps its space, as a monitor does for a guest that writes zeros. */
function zero(offset: number, length: number): void {
  const args = ['--zero-range', '--offset', String(offset), '--length', String(length), path]
  assert.equal(spawnSync('fallocate', args).status, 0)
}

async function writeOnce(): Promise<void> {
  const sizeBlocks = fs.fstatSync(buffered).size / BLOCK
  const blocks = 1 + Math.floor(random() ** 3 * PIECE_BLOCKS_MAX)
  const at = upTo(sizeBlocks - blocks) * BLOCK
  const bytes = memory.subarray(0, blocks * BLOCK)
  counter += 1
  bytes.fill(1 + (counter % 255))
  const what = random()
  if (what < 0.45) fs.writeSync(direct, bytes, 0, bytes.length, at)
  else if (what < 0.8) fs.writeSync(buffered, bytes, 0, 1 + upTo(bytes.length), at + upTo(BLOCK))
  else if (what < 0.95) assert.ok(await punchHole(buffered, at, bytes.length))
  else zero(at, bytes.length)
}

process.stdin.resume()
while (!process.stdin.readableEnded) {
  await writeOnce()
  if (counter === 20) process.stdout.write('writing\n')
  // Lets the end of the input be seen.
  await setImmediate()
}
