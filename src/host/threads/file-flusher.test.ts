import assert from 'node:assert/strict'
import { open as openFile } from 'node:fs'
import { open } from 'node:fs/promises'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { hungPath } from '../../../test/hung-open.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { FileFlusher } from './file-flusher.ts'
import type { TestContext } from 'node:test'

const openToRead = promisify((path: string, done: (error: Error | null, fd: number) => void) =>
  openFile(path, 'r', done),
)

function flusherOf(t: TestContext): FileFlusher {
  const flusher = new FileFlusher()
  t.after(() => flusher.end())
  return flusher
}

test('a flush ends while calls that hang hold every thread that Node has for files', async (t) => {
  const flusher = flusherOf(t)
  const file = await open(import.meta.filename)
  t.after(() => file.close())
  const hung = hungPath(t)
  const threads = Number(process.env['UV_THREADPOOL_SIZE'] ?? 4)
  const hanging = Array.from({ length: threads }, () => openToRead(hung.path))
  await Promise.all([flusher.datasync(file.fd), flusher.datasync(file.fd)])
  hung.release()
  await Promise.all(hanging)
})

test('a flush that fails throws its errno, and does not keep others from ending', async (t) => {
  const flusher = flusherOf(t)
  const file = await open(import.meta.filename)
  t.after(() => file.close())
  const [bad, good] = await Promise.allSettled([flusher.datasync(1_000_000), flusher.datasync(file.fd)])
  assert.ok(bad.status === 'rejected' && bad.reason instanceof ErrnoError && bad.reason.code === 'EBADF')
  assert.equal(good.status, 'fulfilled')
})

test('a flush after the end of the thread is refused', async () => {
  const flusher = new FileFlusher()
  await flusher.end()
  await assert.rejects(flusher.datasync(0), /the flush thread has ended/)
})

test('a flush fails if its thread ends meanwhile', async () => {
  const flusher = new FileFlusher(
    () => "require('node:worker_threads').parentPort.on('message', () => process.exit(0))",
  )
  await assert.rejects(flusher.datasync(0), /the flush thread has ended/)
})
