import { createBody } from './controller-host.ts'
import { SignedUrl } from '../../../src/core/outbound/signed-url.ts'
import type { PackedPart, SnapshotId } from '../../../src/core/snapshots/record.ts'
import type { Answer, ControllerHost } from './controller-host.ts'

export const NIGHTLY = 'nightly-1' as SnapshotId
export const MIB = 1024 * 1024

export const partUrl = (number: number, signature = 'one'): string =>
  `https://bucket.example.net/nightly-1?partNumber=${number}&X-Amz-Signature=${signature}`
export const completeUrl = (signature = 'one'): string =>
  `https://bucket.example.net/nightly-1?uploadId=1&X-Amz-Signature=${signature}`

/** Returns URLs for parts from `first` on. */
export const partUrls = (count: number, { first = 1, signature = 'one' } = {}): string[] =>
  Array.from({ length: count }, (_, index) => partUrl(first + index, signature))

/** Returns a whole request for a snapshot of web-1; `changes` replaces members of `upload`. */
export const startBody = (changes: object = {}) => ({
  vm_id: 'web-1',
  upload: { part_size_mib: 64, part_urls: partUrls(2), ...changes },
})

export const createVm = (host: ControllerHost, id = 'web-1'): Promise<Answer> =>
  host.call({ method: 'PUT', path: `/v1/vms/${id}`, body: createBody({ network: undefined }) })

export const start = (host: ControllerHost, body: unknown = startBody(), id = 'nightly-1'): Promise<Answer> =>
  host.call({ method: 'PUT', path: `/v1/snapshots/${id}`, body })

export const handOver = (host: ControllerHost, body: unknown, id = 'nightly-1'): Promise<Answer> =>
  host.call({ method: 'PUT', path: `/v1/snapshots/${id}/upload`, body })

export const complete = (host: ControllerHost, body: unknown, id = 'nightly-1'): Promise<Answer> =>
  host.call({ method: 'POST', path: `/v1/snapshots/${id}/complete`, body })

export const get = (host: ControllerHost, id = 'nightly-1'): Promise<Answer> =>
  host.call({ path: `/v1/snapshots/${id}` })

export const remove = (host: ControllerHost, id = 'nightly-1'): Promise<Answer> =>
  host.call({ method: 'DELETE', path: `/v1/snapshots/${id}` })

/** Changes the record of a snapshot as its owner does, without the work. */
export class Course {
  readonly #snapshots: ControllerHost['store']['snapshots']
  readonly #id: SnapshotId

  constructor({ store }: Pick<ControllerHost, 'store'>, id: SnapshotId = NIGHTLY) {
    this.#snapshots = store.snapshots
    this.#id = id
  }

  capture(imageMib: number): void {
    const capture = { atMs: 2000, imageBytes: imageMib * MIB, consistency: 'crash', pausedMs: 11.6 } as const
    this.#snapshots.advance(this.#id, { stage: 'packing', capture, nowMs: 2000 })
  }

  /** Packs a part that stands for 100 MiB of the disk. */
  pack(number: number, bytes = 64 * MIB): void {
    const part: PackedPart = {
      number,
      offsetBytes: (number - 1) * 64 * MIB,
      bytes,
      imageBytes: 100 * MIB,
      md5: 'd'.repeat(32),
      sha256: 'e'.repeat(64),
    }
    const next = { imageBytes: number * 100 * MIB, storedBytes: part.offsetBytes + bytes }
    this.#snapshots.addPart(this.#id, part, next, 3000)
  }

  packed(): void {
    this.#snapshots.advance(this.#id, { stage: 'sending', sha256: 'f'.repeat(64) as never, nowMs: 4000 })
  }

  sent(number: number, url = new SignedUrl(partUrl(number))): void {
    this.#snapshots.setEtag(this.#id, number, { etag: `"etag-${number}"`, url }, 5000)
  }

  complete(): void {
    this.#snapshots.advance(this.#id, { stage: 'completed', completionSent: true, nowMs: 6000 })
  }

  fail({ resumable }: { readonly resumable: boolean }): void {
    const trouble = {
      code: 'upload_busy',
      message: 'sending part 1: the store answered 503 SlowDown',
      sinceMs: 7000,
      attempt: 16,
    } as const
    this.#snapshots.advance(this.#id, { stage: 'failed', resumable, trouble, nowMs: 7000 })
  }

  /** Records that all of a disk of 200 MiB was sent, in two parts. */
  sendAll(): void {
    this.capture(200)
    for (const number of [1, 2]) {
      this.pack(number)
      this.sent(number)
    }
    this.packed()
  }
}
