import { createHash } from 'node:crypto'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { checkSource } from '../../core/outbound/image-source.ts'
import type { ImageSource } from '../../core/outbound/image-source.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { ImageBound } from '../../ports/storage.ts'
import type { ThreadSource } from '../threads/task-thread.ts'
import { contentOf } from './content.ts'
import { givenBody, SourceRestarted } from './image-body.ts'
import type { StoringThread } from './fetch-places.ts'
import { FetchTime } from './fetch-time.ts'
import type { ImageBody } from './image-body.ts'
import { ImageWriter } from './image-writer.ts'
import { openLocal } from './local-body.ts'
import { open, removeFile } from '../files/pool-files.ts'
import { RemoteBody } from './remote-body.ts'
import type { RemoteTerms } from './remote-body.ts'
import { storageFault } from '../files/storage-fault.ts'
import { tooLong } from './store-content.ts'

/** The sources from which this host accepts images, and the limits for fetching them. */
export type FetchTerms = Omit<RemoteTerms, 'outbound' | 'bytesMax' | 'bound'> & {
  /** The size limit of every image, after decompression. */
  readonly bytesMax: number
  /** The bytes that the pool keeps free while an image is stored. */
  readonly reserveBytes: number
  /** Fetches remote images; without it no remote image is accepted. */
  readonly outbound?: RemoteTerms['outbound']
  readonly localDirectory?: string
  /** A fetch ends after this time, unless enough came in it; see {@link FetchTime}. */
  readonly totalMs: number
  /** The script of the thread that stores an image. */
  readonly thread: ThreadSource
}

/** The origin of an image: a URL, or chunks as another pool has them. */
export type ImageOrigin =
  | { readonly kind: 'url'; readonly url: ImageSource['url'] }
  | { readonly kind: 'given'; readonly chunks: AsyncIterator<Uint8Array> }

export type Fetch = {
  readonly sha256: Sha256
  readonly origin: ImageOrigin
  /** A path at which no file exists yet. The caller removes what a failure leaves there. */
  readonly target: string
  readonly signal: AbortSignal
  /** Called with each thread that stores a part of the image. */
  readonly onThread: (thread: StoringThread) => void
  /** Called if the pool has no room, with the room above its reserve that there was for the image, in bytes. */
  readonly onShort: (roomBytes: number) => void
  readonly bound: ImageBound
}

/**
 * Fetches an image into a new file. Decompresses it if it is compressed, and verifies it during the transfer. The file
 * is not yet synced.
 */
export async function fetchImage(fetch: Fetch, terms: FetchTerms): Promise<void> {
  const doing = `fetching image ${fetch.sha256}`
  const time = new FetchTime(terms.totalMs)
  const signal = AbortSignal.any([fetch.signal, time.signal])
  try {
    const packed = fetch.origin.kind === 'given' ? 'keep' : 'unpack'
    const receiving = { fetch, terms, signal, time }
    if ((await receiveFrom({ ...receiving, packed })) === 'is_itself_packed')
      await receiveFrom({ ...receiving, packed: 'keep' })
  } catch (error) {
    fetch.signal.throwIfAborted()
    if (time.signal.aborted) throw new HostFault('image_unavailable', doing, { cause: time.signal.reason })
    throw error instanceof HostFault
      ? new HostFault(error.code, doing, { cause: error, retry: error.retry })
      : storageFault(error, doing)
  } finally {
    time.end()
  }
}

/** `keep` stores compressed content as it is. */
type Packed = 'unpack' | 'keep'
type Received = 'stored' | 'is_itself_packed'

type Receiving = {
  readonly fetch: Fetch
  readonly terms: FetchTerms
  readonly signal: AbortSignal
  readonly packed: Packed
  readonly time: FetchTime
}

async function receiveFrom(receiving: Receiving): Promise<Received> {
  const body = await openBody(receiving)
  try {
    for (;;) {
      try {
        return await receive(body, receiving)
      } catch (error) {
        if (!(error instanceof SourceRestarted)) throw error
      }
    }
  } finally {
    await body.close()
  }
}

async function openBody({ fetch, terms, signal }: Receiving): Promise<ImageBody> {
  const { origin, bound } = fetch
  const { localDirectory, outbound } = terms
  if (origin.kind === 'given') return givenBody(origin.chunks, signal)
  const checked = checkSource(origin.url.reveal(), localDirectory !== undefined)
  if (!checked.ok) throw refused(`its URL ${checked.error}`)
  const { kind, url } = checked.value
  if (kind === 'local')
    return openLocal(url, localDirectory ?? '', 'reading it from the local image directory')
  if (outbound === undefined) throw refused('its URL is not a file, and this host takes nothing else')
  const log = terms.log.child({ sha256: fetch.sha256 })
  return new RemoteBody(url, { ...terms, outbound, bytesMax: packedBytesMax(bound), bound, log }, signal)
}

async function receive(body: ImageBody, receiving: Receiving): Promise<Received> {
  const { fetch, terms, signal } = receiving
  await removeFile(fetch.target)
  const file = await open(fetch.target, 'wx', 0o600)
  const stored = { sha256: fetch.sha256, bound: fetch.bound, reserveBytes: terms.reserveBytes }
  // Starts the thread now, so that it is ready when the first bytes arrive.
  const writer = new ImageWriter({
    source: terms.thread,
    file,
    terms: stored,
    signal,
    onShort: fetch.onShort,
  })
  fetch.onThread(writer)
  try {
    return await handOver(body, writer, receiving)
  } finally {
    await writer.end()
  }
}

/**
 * Sends a body to the writer. The wanted image may itself be compressed, as an initrd often is; then the sent bytes
 * have its digest.
 */
async function handOver(body: ImageBody, writer: ImageWriter, receiving: Receiving): Promise<Received> {
  const { fetch, signal, packed, time } = receiving
  const { kind, sent } = await contentOf(body.chunks())
  const hash = kind === 'zstd' && packed === 'unpack' ? createHash('sha256') : undefined
  writer.begin(hash !== undefined)
  const bytesMax = hash === undefined ? fetch.bound.bytesMax : packedBytesMax(fetch.bound)
  let bytes = 0
  let wanted = true
  for await (const chunk of sent) {
    signal.throwIfAborted()
    bytes += chunk.length
    time.add(chunk.length)
    if (bytes > bytesMax) throw tooLong(fetch.bound)
    hash?.update(chunk)
    wanted &&= await time.storing(writer.put(chunk))
    if (!wanted && !(hash !== undefined && isCorrupt(writer.failure))) break
  }
  try {
    await time.storing(writer.finish())
    return 'stored'
  } catch (error) {
    if (isCorrupt(error) && hash?.digest('hex') === fetch.sha256) return 'is_itself_packed'
    throw error
  }
}

/** Returns the most bytes that a source may send for an image of the largest accepted size. */
const packedBytesMax = ({ bytesMax }: ImageBound): number =>
  bytesMax + Math.ceil(bytesMax / 256) + limits.packedExcessBytes

const isCorrupt = (error: unknown): boolean =>
  error instanceof HostFault && error.code === 'image_integrity_failed'

const refused = (why: string): HostFault =>
  new HostFault('image_source_refused', 'checking where it comes from', { cause: new Error(why) })
