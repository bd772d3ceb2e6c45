import type { ClientRequest } from 'node:http'
import { limits } from '../../config/limits.ts'
import {
  errorCodeIn,
  hidesContent,
  judgeAnswer,
  looksLikeMd5,
  parseEtag,
  parseRetryAfter,
  renderCompletion,
  rootElementOf,
} from '../../core/object-store/judge-answer.ts'
import type { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { Clock } from '../../ports/clock.ts'
import type {
  CompleteOutcome,
  HeadOutcome,
  ObjectStore,
  PartOutcome,
  PartToSend,
  Unsent,
} from '../../ports/object-store.ts'
import type { BandwidthLimit, Bounds } from './transfer-limits.ts'
import { given } from '../../lib/given.ts'
import { textOf } from '../outbound/answer-text.ts'
import { OutboundFailure } from '../outbound/outbound-failure.ts'
import type { Outbound, OutboundAnswer, OutboundRequest } from '../outbound/outbound-request.ts'
import { Patience } from './transfer-limits.ts'
import { mayContinue, sendBody } from './send-body.ts'

export type HttpObjectStoreOptions = {
  readonly outbound: Outbound
  /** The limit for all parts together. */
  readonly limit: BandwidthLimit
  readonly clock: Clock
  readonly bounds?: Partial<StoreBounds>
}

type StoreBounds = {
  readonly stallMs: number
  readonly continueMs: number
  readonly partMs: number
  readonly partBytesPerSecond: number
  readonly completeMs: number
}

/** The status of a store that does not support expectations (RFC 9110, 15.5.18). */
const EXPECTATION_FAILED = 417

type PutOutcome = PartOutcome | typeof EXPECTATION_FAILED

type Putting = {
  readonly patience: Patience
  readonly onSent: (bytes: number) => void
  /** Sends the body only when the store says that it takes it, or says nothing for a while. */
  readonly expects: boolean
}

/** Sends to an S3-compatible store by signed URLs over HTTP. */
export class HttpObjectStore implements ObjectStore {
  readonly #outbound: Outbound
  readonly #limit: BandwidthLimit
  readonly #clock: Clock
  readonly #bounds: StoreBounds

  constructor({ outbound, limit, clock, bounds }: HttpObjectStoreOptions) {
    this.#outbound = outbound
    this.#limit = limit
    this.#clock = clock
    this.#bounds = {
      stallMs: limits.sendStallMs,
      continueMs: limits.sendContinueMs,
      partMs: limits.sendPartMs,
      partBytesPerSecond: limits.sendPartBytesPerSecond,
      completeMs: limits.completeMs,
      ...bounds,
    }
  }

  putPart(part: PartToSend, signal: AbortSignal): Promise<PartOutcome> {
    const { stallMs, partMs, partBytesPerSecond } = this.#bounds
    const totalMs = Math.max(partMs, Math.ceil(part.body.bytes / partBytesPerSecond) * 1000)
    return this.#try<PartOutcome>({ totalMs, stallMs }, signal, async (patience) => {
      const reported = activity(part.onSent, this.#clock)
      try {
        const cautious = await this.#put(part, { patience, onSent: reported.add, expects: true })
        if (cautious !== EXPECTATION_FAILED) return cautious
        const plain = await this.#put(part, { patience, onSent: reported.add, expects: false })
        return plain === EXPECTATION_FAILED ? judgeAnswer({ status: EXPECTATION_FAILED }) : plain
      } finally {
        reported.flush()
      }
    })
  }

  async #put({ url, body, md5 }: PartToSend, { patience, onSent, expects }: Putting): Promise<PutOutcome> {
    let last: ClientRequest | undefined
    const request = {
      method: 'PUT',
      headers: {
        'content-length': body.bytes,
        'content-type': 'application/octet-stream',
        'content-md5': Buffer.from(md5, 'hex').toString('base64'),
        ...(expects ? { expect: '100-continue' } : {}),
      },
      write: async (sent, stop) => {
        last = sent
        if (expects && !(await this.#mayContinue(sent, stop))) return
        await sendBody(sent, { body, limit: this.#limit, patience, onSent }, stop)
      },
    } satisfies Omit<OutboundRequest, 'url' | 'signal'>
    return this.#ask<PutOutcome>(url, request, patience, async (answer) => {
      if (answer.status === EXPECTATION_FAILED) return EXPECTATION_FAILED
      if (answer.status !== 200) return this.#refusalIn(answer)
      // The body is read to its end, so that the connection is kept.
      await textOf(answer)
      if (last?.writableEnded !== true)
        return { kind: 'busy', because: 'it answered before it had the whole part' }
      const etag = parseEtag(answer.headers.etag)
      if (etag === undefined) return { kind: 'refused', because: 'it answered without an ETag' }
      if (looksLikeMd5(etag) && etag.toLowerCase() !== md5 && !hidesContent(answer.headers))
        return { kind: 'damaged', because: 'it stored something else than was sent' }
      return { kind: 'stored', etag }
    })
  }

  #mayContinue(sent: ClientRequest, stop: AbortSignal): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.#clock.after(this.#bounds.continueMs, resolve)
    return mayContinue(sent, promise, stop).finally(cancel)
  }

  complete(
    url: SignedUrl,
    parts: readonly { readonly number: number; readonly etag: string }[],
    signal: AbortSignal,
  ): Promise<CompleteOutcome> {
    const { stallMs, completeMs: totalMs } = this.#bounds
    const body = Buffer.from(renderCompletion(parts))
    return this.#try<CompleteOutcome>({ totalMs, stallMs }, signal, (patience) => {
      const request = {
        method: 'POST',
        headers: { 'content-length': body.length, 'content-type': 'application/xml' },
        write: async (sent) => {
          await new Promise<void>((resolve) => sent.once('close', resolve).end(body, resolve))
          // The store assembles the object. It sends nothing, or white space, until that is done.
          patience.rest()
        },
      } satisfies Omit<OutboundRequest, 'url' | 'signal'>
      return this.#ask<CompleteOutcome>(url, request, patience, async (answer) => {
        if (answer.status !== 200) return this.#refusalIn(answer)
        const text = await textOf(answer)
        const root = rootElementOf(text)
        if (root === 'CompleteMultipartUploadResult') return { kind: 'completed' }
        if (root === 'Error') return judgeAnswer({ status: answer.status, code: errorCodeIn(text) })
        return { kind: 'busy', because: 'it answered neither with a result nor with an error' }
      })
    })
  }

  head(url: SignedUrl, signal: AbortSignal): Promise<HeadOutcome> {
    const { stallMs } = this.#bounds
    return this.#try<HeadOutcome>({ totalMs: stallMs, stallMs }, signal, (patience) =>
      this.#ask<HeadOutcome>(url, { method: 'HEAD' }, patience, async (answer) => {
        if (answer.status === 404) return { kind: 'absent' }
        if (answer.status !== 200) return this.#refusalIn(answer)
        await textOf(answer)
        const { headers } = answer
        const length = headers['content-length'] ?? ''
        if (!/^\d{1,15}$/.test(length))
          return { kind: 'refused', because: 'it does not say how long the object is' }
        const etag = hidesContent(headers) ? undefined : parseEtag(headers.etag)
        return { kind: 'present', bytes: Number(length), ...given({ etag }) }
      }),
    )
  }

  /** Makes one attempt. Everything becomes an outcome, except an abort by the caller and errors of our own side. */
  async #try<Outcome>(
    bounds: Bounds,
    signal: AbortSignal,
    attempt: (patience: Patience) => Promise<Outcome>,
  ): Promise<Outcome | Unsent> {
    signal.throwIfAborted()
    const patience = new Patience(bounds, this.#clock, signal)
    try {
      return await attempt(patience)
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof OutboundFailure)) throw error
      return { kind: error.kind === 'not_allowed' ? 'not_allowed' : 'busy', because: error.message }
    } finally {
      patience.end()
    }
  }

  async #ask<Outcome>(
    url: SignedUrl,
    request: Omit<OutboundRequest, 'url' | 'signal'>,
    patience: Patience,
    judge: (answer: OutboundAnswer) => Promise<Outcome>,
  ): Promise<Outcome> {
    const parsed = URL.parse(url.reveal())
    if (parsed === null) throw new OutboundFailure('not_allowed', 'its URL is not an absolute URL')
    const answer = await this.#outbound.ask({ ...request, url: parsed, signal: patience.signal })
    try {
      // From here on, the rest of the answer must arrive within the time of one stall, even in small pieces. A
      // completion may take longer.
      if (request.method !== 'POST') patience.moved()
      return await judge(answer)
    } finally {
      await answer.close()
    }
  }

  async #refusalIn(answer: OutboundAnswer): Promise<Unsent> {
    const { status, headers } = answer
    const retryAfterMs = parseRetryAfter(headers['retry-after'], this.#clock.now())
    return judgeAnswer({ status, code: errorCodeIn(await textOf(answer)), retryAfterMs })
  }
}

/** Adds up the sent bytes, and reports them a few times per second. */
function activity(onSent: PartToSend['onSent'], clock: Clock) {
  let bytes = 0
  let reportedAtMs = clock.monotonicMs()
  const flush = (): void => {
    if (bytes > 0) onSent?.(bytes)
    bytes = 0
    reportedAtMs = clock.monotonicMs()
  }
  const add = (more: number): void => {
    bytes += more
    if (clock.monotonicMs() - reportedAtMs >= limits.sendReportMs) flush()
  }
  return { add, flush }
}
