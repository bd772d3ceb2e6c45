import { assert } from '../../lib/assert.ts'
import type {
  PackedPart,
  PackPoint,
  SnapshotId,
  SnapshotPart,
  SnapshotRecord,
  StagingId,
  UrlsAtHand,
  UrlPurpose,
} from '../../core/snapshots/record.ts'
import type { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { Clock } from '../../ports/clock.ts'
import type { SnapshotChange } from '../../store/snapshots/snapshot-table.ts'
import type { Store } from '../../store/store.ts'
import type { StagingRoom } from './staging-room.ts'

/** The snapshot was deleted; another may have its id. */
export class SnapshotGone extends Error {
  override readonly name = 'SnapshotGone'

  constructor() {
    super('the snapshot was deleted')
  }
}

export type EntryOptions = {
  readonly store: Pick<Store, 'snapshots'>
  readonly clock: Pick<Clock, 'now'>
  readonly room: StagingRoom
}

/**
 * One snapshot on record, as its course reads and writes it. Parts and URLs are kept in memory, because there may be
 * ten thousand of them. Every method but `find` throws {@link SnapshotGone} once the record is gone. So nothing is ever
 * written to another snapshot with the same id.
 */
export class SnapshotEntry {
  readonly id: SnapshotId
  readonly stagingId: StagingId
  /**
   * Whether the store forbade the last look at the object. If it forbids the next one too, the URL has not expired, and
   * more fresh URLs would not help.
   */
  isHeadForbidden = false
  /** Answers of the store for parts that could not be recorded yet, with the URL by which each was sent. */
  readonly #unrecorded = new Map<number, { readonly url: SignedUrl; readonly etag: string }>()
  readonly #store: Pick<Store, 'snapshots'>
  readonly #clock: Pick<Clock, 'now'>
  readonly #room: StagingRoom
  readonly #parts: SnapshotPart[]
  /** Unsent parts by their numbers, in that order. */
  readonly #unsent = new Map<number, SnapshotPart>()
  #urls: UrlsAtHand

  constructor({ id, stagingId, staged }: SnapshotRecord, { store, clock, room }: EntryOptions) {
    this.id = id
    this.stagingId = stagingId
    this.#store = store
    this.#clock = clock
    this.#room = room
    this.#parts = store.snapshots.parts(id)
    this.#urls = store.snapshots.urlsAtHand(id)
    for (const part of this.#parts) if (part.etag === undefined) this.#unsent.set(part.number, part)
    this.#room.set(stagingId, staged.bytes)
  }

  /** Returns the record; undefined if the snapshot was deleted. */
  find(): SnapshotRecord | undefined {
    const record = this.#store.snapshots.get(this.id)
    return record?.stagingId === this.stagingId ? record : undefined
  }

  get record(): SnapshotRecord {
    const record = this.find()
    if (record === undefined) throw new SnapshotGone()
    return record
  }

  /** Returns all parts in the order of their numbers. */
  get parts(): readonly SnapshotPart[] {
    return this.#parts
  }

  /** Returns the parts that are not sent, in the same order. */
  get unsent(): readonly SnapshotPart[] {
    return [...this.#unsent.values()]
  }

  get urls(): UrlsAtHand {
    return this.#urls
  }

  /** Reads the URLs again, because a request may have handed over more. */
  readUrls(): void {
    if (this.find() !== undefined) this.#urls = this.#store.snapshots.urlsAtHand(this.id)
  }

  /**
   * Returns a URL; undefined if it was used up. In that case `urls` is read again, or the course would try the same URL
   * forever.
   */
  url(purpose: UrlPurpose): SignedUrl | undefined {
    const url = this.find() && this.#store.snapshots.url(this.id, purpose)
    if (url === undefined) this.readUrls()
    return url
  }

  advance(change: Omit<SnapshotChange, 'nowMs'>): SnapshotRecord {
    this.#checkThere()
    return this.#store.snapshots.advance(this.id, { ...change, nowMs: this.#clock.now() })
  }

  addPart(part: PackedPart, next: PackPoint): void {
    this.#checkThere()
    const { staged } = this.#store.snapshots.addPart(this.id, part, next, this.#clock.now())
    this.#parts.push(part)
    this.#unsent.set(part.number, part)
    this.#room.set(this.stagingId, staged.bytes)
  }

  /**
   * Returns the ETag of a part that was sent by this URL, and could not be recorded; undefined if there is none.
   * Another URL may be of an upload that does not have the part.
   */
  unrecordedEtag(number: number, url: SignedUrl): string | undefined {
    const sent = this.#unrecorded.get(number)
    return sent?.url.equals(url) === true ? sent.etag : undefined
  }

  /** Records that the store has the part. If that fails, {@link unrecordedEtag} has the ETag. */
  setEtag(number: number, etag: string, url: SignedUrl): SnapshotRecord {
    this.#checkThere()
    this.#unrecorded.set(number, { url, etag })
    const record = this.#store.snapshots.setEtag(this.id, number, { etag, url }, this.#clock.now())
    const part = this.#unsent.get(number)
    assert(part !== undefined, `${this.id}: part ${number} was sent twice`)
    // Part numbers begin with 1 and have no gaps.
    this.#parts[number - 1] = { ...part, etag }
    this.#unsent.delete(number)
    this.#unrecorded.delete(number)
    this.#room.set(this.stagingId, record.staged.bytes)
    return record
  }

  /**
   * Drops URLs because the store refused this one. Returns false if fresh URLs have come since; the refusal does not
   * concern them.
   */
  dropUrls(purpose: UrlPurpose, used: SignedUrl): boolean {
    this.#checkThere()
    if (this.url(purpose)?.equals(used) !== true) return false
    this.#store.snapshots.dropUrls(this.id, this.#clock.now(), purpose)
    this.readUrls()
    return true
  }

  touch(): void {
    this.#checkThere()
    this.#store.snapshots.touch(this.id, this.#clock.now())
  }

  /** Throws SnapshotGone if the snapshot was deleted: nothing may be written to another one with its id. */
  #checkThere(): void {
    if (this.find() === undefined) throw new SnapshotGone()
  }
}
