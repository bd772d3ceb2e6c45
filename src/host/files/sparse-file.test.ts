import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { open } from './pool-files.ts'
import { SparseFile } from './sparse-file.ts'

const KIB = 1024

function pathIn(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'sparse-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return join(directory, 'file')
}

async function written(path: string, chunks: readonly Uint8Array[]): Promise<Buffer> {
  const target = await open(path, 'wx')
  const file = new SparseFile(target)
  for (const chunk of chunks) await file.write(chunk)
  await file.finish()
  await target.close()
  return readFileSync(path)
}

const data = randomBytes(300 * KIB)
const zeros = (kib: number): Buffer => Buffer.alloc(kib * KIB)

for (const [what, parts] of [
  ['nothing', []],
  ['data alone', [data]],
  ['zeros alone', [zeros(200)]],
  ['zeros between data', [data, zeros(3000), data]],
  ['zeros at the end, of odd length', [data, zeros(1500), Buffer.alloc(7)]],
  ['zeros at the start', [zeros(1024), data]],
] as const) {
  test(`a file reads back as it was written: ${what}`, async (t) => {
    const whole = Buffer.concat(parts)
    assert.ok((await written(pathIn(t), parts)).equals(whole))
  })
}

test('it makes no difference how the bytes are cut', async (t) => {
  const whole = Buffer.concat([data, zeros(1300), data, Buffer.alloc(5)])
  for (const size of [1, 7].map((n) => n * 100_003)) {
    const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, n) =>
      whole.subarray(n * size, (n + 1) * size),
    )
    assert.ok((await written(pathIn(t), chunks)).equals(whole))
  }
})

test('zeros take no space', async (t) => {
  const path = pathIn(t)
  await written(path, [zeros(64 * KIB), data, zeros(64 * KIB)])
  assert.ok(statSync(path).blocks * 512 < 1024 * KIB)
})

test('what a write leaves out is written after it', async () => {
  const content = Buffer.alloc(data.length)
  const file = new SparseFile({
    write: async (bytes, offset, length, position) => {
      const bytesWritten = Math.min(length, 100_003)
      content.set(bytes.subarray(offset, offset + bytesWritten), position)
      return { bytesWritten }
    },
    truncate: async () => {},
  })
  await file.write(data)
  await file.finish()
  assert.ok(content.equals(data))
})
