import { createHash } from 'node:crypto'
import { HostFault } from '../../core/errors.ts'
import { checkSource } from '../../core/storage/check-source.ts'
import type { Sha256 } from '../../core/vm/ids.ts'
import type { ImageBody } from './image-body.ts'
import { openLocal } from './local-body.ts'
import { openRemote } from './remote-body.ts'
import { SparseFile } from './sparse-file.ts'
import { storageFault } from './storage-fault.ts'

/** What this host takes images from, and on which terms. */
export type FetchTerms = {
  readonly allowHttp: boolean
  readonly localDirectory?: string
  readonly ca?: readonly string[]
  readonly bytesMax: number
  readonly stallMs: number
  readonly totalMs: number
  readonly redirectsMax: number
}

export type Fetch = {
  readonly sha256: Sha256
  /** Secret where it is signed. */
  readonly url: string
  /** A path where nothing is yet; what is left there after a failure is the caller's to remove. */
  readonly target: string
  readonly signal: AbortSignal
}

/** Fetches an image into a new file and verifies it while it comes. The file is not yet synced. */
export async function fetchImage(fetch: Fetch, terms: FetchTerms): Promise<void> {
  const doing = `fetching image ${fetch.sha256}`
  const stall = new AbortController()
  const total = AbortSignal.timeout(terms.totalMs)
  const signal = AbortSignal.any([fetch.signal, stall.signal, total])
  try {
    const body = await patient(openBody(fetch.url, terms, signal), terms.stallMs, stall)
    try {
      if ((body.bytes ?? 0) > terms.bytesMax) throw tooLarge(terms.bytesMax)
      await receive(body, { fetch, terms, stall, signal })
    } finally {
      await body.close()
    }
  } catch (error) {
    fetch.signal.throwIfAborted()
    if (stall.signal.aborted) throw unavailable(doing, `nothing came for ${terms.stallMs / 1000} s`)
    if (total.aborted) throw unavailable(doing, `it took longer than ${terms.totalMs / 1000} s`)
    throw error instanceof HostFault
      ? new HostFault(error.code, doing, { cause: error })
      : storageFault(error, doing)
  }
}

async function openBody(text: string, terms: FetchTerms, signal: AbortSignal): Promise<ImageBody> {
  const { allowHttp, localDirectory, redirectsMax, ca } = terms
  const policy = { allowHttp, allowFile: localDirectory !== undefined }
  const checked = checkSource(text, policy)
  if (!checked.ok)
    throw new HostFault('image_source_refused', `checking its URL`, { cause: new Error(checked.error) })
  const { kind, url } = checked.value
  if (kind === 'remote') return openRemote({ url, policy, redirectsMax, signal, ...(ca && { ca }) })
  return openLocal(url, localDirectory ?? '', 'reading it from the local image directory')
}

type Receiving = {
  readonly fetch: Fetch
  readonly terms: FetchTerms
  readonly stall: AbortController
  readonly signal: AbortSignal
}

async function receive(body: ImageBody, { fetch, terms, stall, signal }: Receiving): Promise<void> {
  const hash = createHash('sha256')
  const file = await SparseFile.create(fetch.target)
  let bytes = 0
  try {
    const chunks = body.chunks[Symbol.asyncIterator]()
    for (;;) {
      const next = await patient(chunks.next(), terms.stallMs, stall)
      signal.throwIfAborted()
      if (next.done === true) break
      bytes += next.value.length
      if (bytes > terms.bytesMax) throw tooLarge(terms.bytesMax)
      hash.update(next.value)
      await file.write(next.value)
    }
    await file.finish()
  } finally {
    await file.close()
  }
  if (body.bytes !== undefined && bytes !== body.bytes) {
    throw unavailable('receiving it', `${bytes} bytes came of ${body.bytes}`)
  }
  const digest = hash.digest('hex')
  if (digest !== fetch.sha256) {
    throw new HostFault('image_integrity_failed', 'verifying it', {
      cause: new Error(`its SHA-256 is ${digest}`),
    })
  }
}

/** Aborts `stall` when the source keeps us waiting; time that our own disk takes does not count. */
async function patient<T>(waiting: Promise<T>, stallMs: number, stall: AbortController): Promise<T> {
  const timer = setTimeout(() => stall.abort(), stallMs)
  try {
    return await waiting
  } finally {
    clearTimeout(timer)
  }
}

const unavailable = (doing: string, why: string): HostFault =>
  new HostFault('image_unavailable', doing, { cause: new Error(why) })

const tooLarge = (bytesMax: number): HostFault =>
  unavailable('receiving it', `it has more than the ${bytesMax / 1024 / 1024} MiB that this host takes`)
