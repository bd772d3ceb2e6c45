import { mapFile } from '../ffi/map-file.ts'
import { library } from '../ffi/koffi.ts'
import type { FileMapping } from '../ffi/map-file.ts'

/** linux/bpf.h: the flags in a record's length field, and the size of a record's header. */
const BUSY = 0x8000_0000
const DISCARDED = 0x4000_0000
const HEADER_BYTES = 8
const SC_PAGESIZE = 30

const sysconf = library('libc.so.6').func('long sysconf(int name)')

export type RingRecord = {
  /** The record inside the ring, valid until `release` is called with its end. Empty for a discarded record. */
  readonly bytes: Buffer
  /** The position of the next record, in bytes since the ring was made. */
  readonly end: number
}

/**
 * Reads a BPF ring buffer (kernel: Documentation/bpf/ringbuf.rst). Reading and releasing are separate: a record that
 * was not released is read again by the next reader, which may be the next daemon's. Throws ErrnoError.
 */
export class RingBuffer {
  /** The bytes that the kernel may fill. */
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

  /**
   * Returns the next record; undefined if there is none, or if the kernel is still writing it. The kernel signals when
   * it has finished.
   */
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

  /** Returns the bytes of all records that were not released. */
  usedBytes(): number {
    return Number(Atomics.load(this.#written, 0)) - this.#releasedAt()
  }

  /** Releases all records before `end`. */
  release(end: number): void {
    Atomics.store(this.#released, 0, BigInt(end))
  }

  /** Unmaps the ring. Its records must not be accessed afterwards. */
  close(): void {
    this.#unmap()
  }

  /** Maps the records twice, one copy after the other, so that a record that wraps around is contiguous. */
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
