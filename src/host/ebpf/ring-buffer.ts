import { mapFile } from '../ffi/map-file.ts'
import { library } from '../ffi/koffi.ts'
import type { FileMapping } from '../ffi/map-file.ts'

/** linux/bpf.h: the flags in the length of a record, and the bytes before it. */
const BUSY = 0x8000_0000
const DISCARDED = 0x4000_0000
const HEADER_BYTES = 8
const SC_PAGESIZE = 30

const sysconf = library('libc.so.6').func('long sysconf(int name)')

export type RingRecord = {
  /** The record in the ring itself: gone once `release` was told of its end. Empty for one that was given up. */
  readonly bytes: Buffer
  /** Where the next one begins, in bytes since the ring was made. */
  readonly end: number
}

/**
 * The reader of a BPF ring buffer (kernel: Documentation/bpf/ringbuf.rst). Reading and letting go of what was read are two
 * things: what is not let go of is read again by the next reader, of the next daemon. Throws ErrnoError.
 */
export class RingBuffer {
  /** What the kernel may fill, in bytes. */
  readonly bytes: number
  readonly #unmap: () => void
  readonly #released: BigUint64Array
  readonly #written: BigUint64Array
  readonly #lengths: Uint32Array
  readonly #records: Buffer
  #readAt: number

  /** @param bytes the size of the map (`max_entries`) */
  constructor(fd: number, bytes: number) {
    this.bytes = bytes
    const page = Number(sysconf(SC_PAGESIZE))
    const consumer = mapFile(fd, page)
    const producer = this.#mapRecords(fd, page, consumer)
    this.#unmap = () => {
      consumer.unmap()
      producer.unmap()
    }
    this.#released = new BigUint64Array(consumer.buffer, 0, 1)
    this.#written = new BigUint64Array(producer.buffer, 0, 1)
    this.#lengths = new Uint32Array(producer.buffer, page, (2 * bytes) / 4)
    this.#records = Buffer.from(producer.buffer, page, 2 * bytes)
    this.#readAt = this.#releasedAt()
  }

  /** The next record; undefined where there is none, or the kernel is still writing it, of whose end it tells. */
  next(): RingRecord | undefined {
    if (this.#readAt === Number(Atomics.load(this.#written, 0))) return undefined
    const at = this.#readAt % this.bytes
    const header = Atomics.load(this.#lengths, at / 4)
    if (header >= BUSY) return undefined
    const length = header % DISCARDED
    const start = at + HEADER_BYTES
    this.#readAt += (HEADER_BYTES + length + 7) & ~7
    const isDiscarded = header >= DISCARDED
    return { bytes: this.#records.subarray(start, isDiscarded ? start : start + length), end: this.#readAt }
  }

  /** What is not let go of. */
  usedBytes(): number {
    return Number(Atomics.load(this.#written, 0)) - this.#releasedAt()
  }

  /** Lets go of all that is before `end`. */
  release(end: number): void {
    Atomics.store(this.#released, 0, BigInt(end))
  }

  /** What was read must not be touched any more. */
  close(): void {
    this.#unmap()
  }

  /** The records are there twice, one after the other, so that each is whole wherever it begins. */
  #mapRecords(fd: number, page: number, consumer: FileMapping): FileMapping {
    try {
      return mapFile(fd, page + 2 * this.bytes, { offset: page, readOnly: true })
    } catch (error) {
      consumer.unmap()
      throw error
    }
  }

  #releasedAt(): number {
    return Number(Atomics.load(this.#released, 0))
  }
}
