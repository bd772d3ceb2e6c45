import { mapFile } from '../ffi/map-file.ts'
import { library } from '../ffi/koffi.ts'
import type { FileMapping } from '../ffi/map-file.ts'

/** linux/bpf.h: the flags in a record's length field, and the size of a record's header. */
const BUSY = 0x8000_0000
const DISCARDED = 0x4000_0000
export const HEADER_BYTES = 8
const SC_PAGESIZE = 30

const sysconf = library('libc.so.6').func('long sysconf(int name)')

export type RingRecord = {
  /**
   * The record, valid until `release` is called with its end: a view of the ring, or a copy if it wraps around. Empty
   * for a discarded record.
   */
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
    this.#released = new BigUint64Array(consumer.view(), 0, 1)
    const produced = producer.view()
    this.#written = new BigUint64Array(produced, 0, 1)
    this.#lengths = new Uint32Array(produced, page, bytes / 4)
    this.#records = Buffer.from(produced, page, bytes)
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
    const start = (at + HEADER_BYTES) % this.bytes
    this.#readAt += (HEADER_BYTES + length + 7) & ~7
    return { bytes: this.#bytesAt(start, header >= DISCARDED ? 0 : length), end: this.#readAt }
  }

  #bytesAt(start: number, length: number): Buffer {
    const overhang = start + length - this.bytes
    if (overhang <= 0) return this.#records.subarray(start, start + length)
    return Buffer.concat([this.#records.subarray(start), this.#records.subarray(0, overhang)])
  }

  /** Returns the bytes of all records that were not released. */
  usedBytes(): number {
    return Number(Atomics.load(this.#written, 0)) - this.#releasedAt()
  }

  /** Releases all records before `end`. Returns the most bytes that were used since the release before. */
  release(end: number): number {
    const from = this.#releasedAt()
    Atomics.store(this.#released, 0, BigInt(end))
    return Number(Atomics.load(this.#written, 0)) - from
  }

  /** Unmaps the ring. Its records must not be accessed afterwards. */
  close(): void {
    this.#unmap()
  }

  /**
   * Maps the records once. The kernel offers a second copy behind them,
   * which would count twice as memory of the daemon.
   */
  #mapRecords(fd: number, page: number, consumer: FileMapping): FileMapping {
    try {
      return mapFile(fd, page + this.bytes, { offset: page, readOnly: true })
    } catch (error) {
      consumer.unmap()
      throw error
    }
  }

  #releasedAt(): number {
    return Number(Atomics.load(this.#released, 0))
  }
}
