import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import { parseSha256 } from '../../core/ids.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { ImageBound, StoredImage } from '../../ports/storage.ts'
import { abortable } from '../../lib/abortable.ts'
import { publish, sync } from '../files/durable.ts'
import { fetchImage } from './fetch-image.ts'
import { FetchPlaces } from './fetch-places.ts'
import type { PlacedFetch, StoringThread } from './fetch-places.ts'
import type { FetchTerms, ImageOrigin } from './fetch-image.ts'
import { chunksOf, closeChunks } from './image-body.ts'
import { ImageRefusals } from './image-refusals.ts'
import { chmod, open, readdir, removeFile, renameIf, stat } from '../files/pool-files.ts'
import type { PoolAccess } from '../pool/pool-access.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import { ifThere, orStorageFault, storageFault } from '../files/storage-fault.ts'

const READ_ONLY_MODE = 0o444

/** An image that a caller asks for. */
type Asked = {
  readonly sha256: Sha256
  readonly origin: ImageOrigin
  readonly bound: ImageBound
}

/** The fetch that the first caller has begun, and how many callers wait for it. */
type Shared = Asked & {
  /** The server that it asks, as {@link serverOf} names it. */
  readonly server: string
  readonly done: Promise<void>
  readonly controller: AbortController
  askers: number
}

type Fetching = {
  /** The room above the reserve of the pool before the fetch. */
  readonly roomBytes: number
  readonly signal: AbortSignal
  readonly onThread: (thread: StoringThread) => void
}

/** Aborts a fetch whose image another fetch has brought meanwhile. */
class Overtaken extends Error {
  override readonly name = 'Overtaken'
}

/**
 * The images of a pool. A digest is fetched only once at a time from each server for all callers, and only while a
 * caller still waits. Fetches of one digest from several servers run beside each other, so that no caller depends on
 * the server of another one. The first that has the image ends the others.
 */
export class Images {
  readonly #paths: PoolPaths
  readonly #terms: FetchTerms
  readonly #places: FetchPlaces
  readonly #refusals: ImageRefusals
  readonly #fetches = new Set<Shared>()
  /** How many tasks are reading each image. */
  readonly #uses = new Map<Sha256, number>()

  constructor(paths: PoolPaths, terms: FetchTerms, fetchesMax: number) {
    this.#paths = paths
    this.#terms = terms
    this.#places = new FetchPlaces(fetchesMax)
    this.#refusals = new ImageRefusals(paths.images, terms.reserveBytes)
  }

  async ensure(sha256: Sha256, origin: ImageOrigin, signal: AbortSignal, asked?: ImageBound): Promise<void> {
    try {
      await this.#ensureFromServer({ sha256, origin, bound: this.#boundOf(asked) }, signal)
    } catch (error) {
      signal.throwIfAborted()
      // The pool may have room for the image only once, and another server may bring it.
      const isFull = error instanceof HostFault && error.code === 'storage_full'
      if (!isFull || !(await this.#comesOtherwise(sha256, signal))) throw error
    }
  }

  async #ensureFromServer(asked: Asked, signal: AbortSignal): Promise<void> {
    const { sha256, origin } = asked
    for (;;) {
      signal.throwIfAborted()
      if (await this.#has(sha256)) return
      const shared = this.#running(sha256, serverOf(origin)) ?? (await this.#begin(asked))
      try {
        return await this.#join(shared, signal)
      } catch (error) {
        signal.throwIfAborted()
        if (provesFailure(error, shared, asked)) throw error
      }
    }
  }

  /** Waits for the fetches of the image that run, one after another, and returns whether one has brought it. */
  async #comesOtherwise(sha256: Sha256, signal: AbortSignal): Promise<boolean> {
    for (let other = this.#running(sha256); other !== undefined; other = this.#running(sha256)) {
      await this.#join(other, signal).catch(() => signal.throwIfAborted())
      if (await this.#has(sha256)) return true
    }
    return false
  }

  /** Ensures an image as {@link ensure}, with chunks from another host, and closes them. */
  async ensureFrom(
    sha256: Sha256,
    body: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
    asked?: ImageBound,
  ): Promise<void> {
    const chunks = body[Symbol.asyncIterator]()
    try {
      await this.ensure(sha256, { kind: 'given', chunks }, signal, asked)
    } finally {
      closeChunks(chunks)
    }
  }

  /** Yields the content of an image, which is not removed meanwhile. Throws HostFault, and the signal's reason. */
  async *read(sha256: Sha256, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const release = this.#use(sha256)
    try {
      const file = await open(this.#paths.image(sha256), 'r')
      try {
        for await (const chunk of chunksOf(file)) {
          signal.throwIfAborted()
          yield chunk
        }
      } finally {
        await file.close()
      }
    } catch (error) {
      signal.throwIfAborted()
      throw storageFault(error, `reading image ${sha256}`)
    } finally {
      release()
    }
  }

  #boundOf(asked: ImageBound | undefined): ImageBound {
    const { bytesMax } = this.#terms
    return asked === undefined || asked.bytesMax > bytesMax ? { bytesMax, excess: 'image_too_large' } : asked
  }

  async #join(shared: Shared, signal: AbortSignal): Promise<void> {
    shared.askers += 1
    try {
      await abortable(shared.done, signal)
    } finally {
      shared.askers -= 1
      // The last caller to leave ends the fetch and waits for its end, so no fetch runs on after an abort.
      if (shared.askers === 0) await this.#end(shared)
    }
  }

  /** Runs a task that reads the image. The image is not removed meanwhile. */
  async using<T>(sha256: Sha256, task: () => Promise<T>): Promise<T> {
    const release = this.#use(sha256)
    try {
      return await task()
    } finally {
      release()
    }
  }

  #use(sha256: Sha256): () => void {
    this.#uses.set(sha256, (this.#uses.get(sha256) ?? 0) + 1)
    return () => {
      const left = (this.#uses.get(sha256) ?? 0) - 1
      if (left > 0) this.#uses.set(sha256, left)
      else this.#uses.delete(sha256)
    }
  }

  /** Removes an image as `Storage.removeImage` says. */
  async remove(sha256: Sha256, mayRemove: () => boolean): Promise<boolean> {
    const mayGo = (): boolean => this.#running(sha256) === undefined && !this.#uses.has(sha256) && mayRemove()
    const removed = this.#paths.removed()
    return orStorageFault(`removing image ${sha256}`, async () => {
      // In one step, so that no reader finds half an image. The sweep at start removes what a crash leaves.
      const renamed = await ifThere(renameIf(this.#paths.image(sha256), removed, mayGo))
      if (renamed !== true) return renamed === undefined
      await sync(this.#paths.images)
      await removeFile(removed)
      return true
    })
  }

  async #has(sha256: Sha256): Promise<boolean> {
    const look = () => ifThere(stat(this.#paths.image(sha256)))
    return (await orStorageFault(`looking for image ${sha256}`, look)) !== undefined
  }

  async #begin(asked: Asked): Promise<Shared> {
    const { sha256, origin, bound } = asked
    const roomBytes = await orStorageFault(`looking for room for image ${sha256}`, () =>
      this.#refusals.check(sha256, urlOf(origin), bound),
    )
    const server = serverOf(origin)
    // Another caller may have begun the fetch meanwhile.
    const begun = this.#running(sha256, server)
    if (begun !== undefined) return begun
    const controller = new AbortController()
    const { signal } = controller
    const placed: PlacedFetch = {
      source: sourceOf(origin),
      isRepeatable: origin.kind === 'url',
      fetch: (until, onThread) => this.#fetch(asked, { roomBytes, signal: until, onThread }),
    }
    const done = this.#places.run(placed, signal)
    const shared: Shared = { ...asked, server, done, controller, askers: 0 }
    this.#fetches.add(shared)
    void done.then(
      () => this.#overtakeOthers(shared),
      // A fetch that failed accepts no further callers.
      () => this.#fetches.delete(shared),
    )
    return shared
  }

  /** Returns a fetch of the image from this server; absent: from any. */
  #running(sha256: Sha256, server?: string): Shared | undefined {
    for (const shared of this.#fetches)
      if (shared.sha256 === sha256 && (server ?? shared.server) === shared.server) return shared
    return undefined
  }

  #overtakeOthers(shared: Shared): void {
    for (const other of this.#fetches)
      if (other.sha256 === shared.sha256 && other !== shared) other.controller.abort(new Overtaken())
  }

  async #end(shared: Shared): Promise<void> {
    this.#fetches.delete(shared)
    shared.controller.abort()
    await shared.done.catch(() => {})
  }

  async #fetch(asked: Asked, { signal, onThread, ...before }: Fetching): Promise<void> {
    const { sha256, origin, bound } = asked
    let { roomBytes } = before
    // Others may have taken room since the look before the fetch, and may give it back.
    const onShort = (bytes: number): void => {
      roomBytes = Math.min(roomBytes, bytes)
    }
    const target = join(this.#paths.tmp, `image-${randomUUID()}`)
    try {
      await fetchImage({ sha256, origin, target, signal, onThread, onShort, bound }, this.#terms)
      await chmod(target, READ_ONLY_MODE)
      await publish(target, this.#paths.image(sha256))
      this.#refusals.forget(sha256)
    } catch (error) {
      const fault = storageFault(error, `storing image ${sha256}`)
      if (fault instanceof HostFault)
        this.#refusals.note(fault, { sha256, url: urlOf(origin), bound, roomBytes })
      throw fault
    } finally {
      await removeFile(target)
    }
  }
}

/** Returns whether the failure of a shared fetch shows that a fetch for this caller would fail too. */
function provesFailure(error: unknown, shared: Shared, { origin, bound }: Asked): boolean {
  if (error instanceof Overtaken) return false
  // A URL may have expired, and a stream from another host ends with the request that brought it.
  if (!isSameOrigin(shared.origin, origin)) return false
  const isTooLong = error instanceof HostFault && error.code === shared.bound.excess
  const acceptsMore = bound.bytesMax > shared.bound.bytesMax
  return !(isTooLong && acceptsMore)
}

function isSameOrigin(one: ImageOrigin, other: ImageOrigin): boolean {
  if (one.kind === 'given' || other.kind === 'given') return one === other
  return one.url.equals(other.url)
}

/**
 * Returns the published images of a pool, ordered by digest. A file whose name is not a digest is skipped, and so are
 * unfinished files. Throws HostFault `storage_inspection_failed`.
 */
export function listImages({ paths, looks, verify }: PoolAccess): Promise<readonly StoredImage[]> {
  return looks.take('listing the images of the storage pool', async () => {
    const digests = (await readdir(paths.images)).map(parseSha256).filter((name) => name !== undefined)
    const found = await Promise.all(digests.map((sha256) => ifThere(stat(paths.image(sha256)))))
    // This check comes after looking: if the pool is out of sight, no image is reported absent.
    await verify()
    return digests
      .flatMap((sha256, index) => {
        const stats = found[index]
        // The file was last written when it was fetched. Giving it a name or mode, and cloning it, do not change that
        // time (inode(7)).
        return stats === undefined
          ? []
          : [{ sha256, sizeBytes: stats.size, fetchedAtMs: Math.round(stats.mtimeMs) }]
      })
      .toSorted((a, b) => (a.sha256 < b.sha256 ? -1 : 1))
  })
}

/** Returns the name under which all fetches of a source share places: the host of a URL, or one for all other hosts. */
const sourceOf = (origin: ImageOrigin): string => (origin.kind === 'url' ? origin.url.host : 'other hosts')

/** Returns the name under which callers share a fetch: scheme, host and port of a URL, or one for all other hosts. */
const serverOf = (origin: ImageOrigin): string =>
  origin.kind === 'url' ? (URL.parse(origin.url.reveal())?.origin ?? '') : 'other hosts'

const urlOf = (origin: ImageOrigin): string | undefined =>
  origin.kind === 'url' ? origin.url.reveal() : undefined
