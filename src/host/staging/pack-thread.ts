/**
 * Compresses and digests, in a thread of its own. The thread is also a bundle of its own, so the executable contains
 * its imports twice.
 */
import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { readlinkSync, readSync } from 'node:fs'
import { setPriority } from 'node:os'
import { basename } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { constants, zstdCompressSync } from 'node:zlib'
import type {
  CompressTerms,
  DigestOf,
  Stretch,
  ThreadAnswer,
  ThreadSetting,
  ThreadTask,
} from './thread-tasks.ts'

/** The size of a digested piece, which fits into a core's cache. */
const PIECE_BYTES = 512 * 1024
/**
 * Larger than what Node takes from its shared buffer, so that a compressed frame can be transferred instead of copied.
 */
const OUTPUT_BYTES_MIN = 512 * 1024
const ZEROS = Buffer.alloc(PIECE_BYTES)

type Running = { md5: Hash; sha256: Hash }

const begin = (): Running => ({ md5: createHash('md5'), sha256: createHash('sha256') })
const running: Record<DigestOf, Running> = { image: begin(), part: begin() }

/** The input buffer. It grows to the size of the largest frame, and is kept. */
let room: Buffer<ArrayBuffer> = Buffer.alloc(0)

class CutShort extends Error {}

function read({ fd, from, bytes }: Stretch): Buffer<ArrayBuffer> {
  if (room.length < bytes) room = Buffer.from(new ArrayBuffer(bytes))
  for (let filled = 0; filled < bytes;) {
    const count = readSync(fd, room, filled, bytes - filled, from + filled)
    if (count === 0) throw new CutShort()
    filled += count
  }
  return room.subarray(0, bytes)
}

function compress(task: Stretch & CompressTerms): ThreadAnswer {
  if (Atomics.load(task.unwanted, 0) !== 0) return { kind: 'unwanted' }
  const image = read(task)
  const frame = zstdCompressSync(image, {
    params: {
      [constants.ZSTD_c_compressionLevel]: task.level,
      [constants.ZSTD_c_checksumFlag]: 1,
    },
    // At least ZSTD_COMPRESSBOUND (zstd.h) of every frame but small ones, so the output is a single piece.
    chunkSize: Math.max(OUTPUT_BYTES_MIN, image.length + (image.length >> 8)),
  })
  return { kind: 'frame', frame }
}

function digest(of: DigestOf, bytes: Uint8Array): void {
  const { md5, sha256 } = running[of]
  sha256.update(bytes)
  if (of === 'part') md5.update(bytes)
}

function answer(task: ThreadTask): ThreadAnswer {
  switch (task.kind) {
    case 'compress':
      return compress(task)
    case 'digest': {
      const end = task.from + task.bytes
      for (let from = task.from; from < end; from += PIECE_BYTES)
        digest(task.of, read({ fd: task.fd, from, bytes: Math.min(PIECE_BYTES, end - from) }))
      return { kind: 'done' }
    }
    case 'digest-zeros':
      for (let at = 0; at < task.bytes; at += PIECE_BYTES)
        digest(task.of, ZEROS.subarray(0, Math.min(PIECE_BYTES, task.bytes - at)))
      return { kind: 'done' }
    case 'end-digest': {
      const { md5, sha256 } = running[task.of]
      running[task.of] = begin()
      return { kind: 'digests', digests: { md5: md5.digest('hex'), sha256: sha256.digest('hex') } }
    }
    default:
      return task satisfies never
  }
}

/** Describes an error. Errors of system calls have both `errno` and `syscall`; errors of zstd have only a `code`. */
function failure(error: unknown): ThreadAnswer {
  if (error instanceof CutShort) return { kind: 'cut-short' }
  const { errno, syscall, code, name } = error as NodeJS.ErrnoException
  if (syscall !== undefined && errno !== undefined) return { kind: 'failed', errno, because: syscall }
  return { kind: 'failed', because: code ?? name }
}

// On Linux each thread has its own nice value (setpriority(2), "C library/kernel differences").
setPriority(Number(basename(readlinkSync('/proc/thread-self'))), (workerData as ThreadSetting).nice)

parentPort?.on('message', (task: ThreadTask) => {
  let answered: ThreadAnswer
  try {
    answered = answer(task)
  } catch (error) {
    answered = failure(error)
  }
  const handedOver = answered.kind === 'frame' ? [answered.frame.buffer] : []
  parentPort?.postMessage(answered, handedOver)
})
