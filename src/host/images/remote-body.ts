import { setTimeout as sleep } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { errorCodeIn, judgeAnswer, parseRetryAfter } from '../../core/object-store/judge-answer.ts'
import { sendDelayMs } from '../../core/snapshots/work.ts'
import { judgeResumption, resumeFields, sentBy } from '../../core/images/resume.ts'
import { textOf } from '../outbound/answer-text.ts'
import { OutboundFailure } from '../outbound/outbound-failure.ts'
import { SourceRestarted } from './image-body.ts'
import { excessWords } from './store-content.ts'
import { given } from '../../lib/given.ts'
import type { ImageBound } from '../../ports/storage.ts'
import type { Log } from '../../log/log.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { Sent } from '../../core/images/resume.ts'
import type { Outbound, OutboundAnswer } from '../outbound/outbound-request.ts'
import type { ImageBody } from './image-body.ts'

export type RemoteTerms = {
  readonly outbound: Outbound
  /** The most bytes that the source may send, compressed or not. */
  readonly bytesMax: number
  /** The bound that a source violates if it announces more. */
  readonly bound: ImageBound
  readonly stallMs: number
  /** Gets a line for each try that breaks off and is resumed. */
  readonly log: Log
  /** How many bytes must arrive in how long a time of waiting for them; absent: the limits. */
  readonly pace?: Pace
  /** Returns how long to wait after this many failures in a row, when the store asked for a wait of `retryAfterMs`. */
  readonly resumeDelayMs?: (failures: number, retryAfterMs: number) => number
}

export type Pace = { readonly bytes: number; readonly ms: number }

const LEAST_PACE: Pace = { bytes: limits.fetchPaceBytesMin, ms: limits.fetchPaceMs }

/**
 * Encodings that are accepted. zstd is one, because an image may be compressed with it anyway. `aws-chunked` says only
 * how an upload was framed. Amazon S3 removes it, and some other stores repeat it, or leave an empty value of it (API
 * Reference, "Transferring Payload in Multiple Chunks").
 */
const ENCODINGS: readonly string[] = ['', 'identity', 'zstd', 'aws-chunked']

/**
 * Reads an image over HTTP. A transfer that breaks off is resumed at the point where it stopped, if any bytes came. A
 * source that never sent a byte has failed, and the caller tries again later, unless it asks for a short wait. A source
 * that sends a byte now and then also counts as failed: it would keep others from fetching. Errors contain only the
 * host name of the URL.
 */
export class RemoteBody implements ImageBody {
  readonly #url: URL
  readonly #terms: RemoteTerms
  readonly #signal: AbortSignal
  /** The answer that is being read, or will be read next. */
  #answer: OutboundAnswer | undefined
  #stall = new AbortController()
  #sent: Sent = {}
  #received = 0
  #hasRestarted = false
  /** How the last answer broke off. */
  #broke: string | undefined
  #retryAfterMs = 0

  constructor(url: URL, terms: RemoteTerms, signal: AbortSignal) {
    this.#url = url
    this.#terms = terms
    this.#signal = signal
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    const pace = this.#terms.pace ?? LEAST_PACE
    for (let failures = 0, sinceBytes = this.#received; ;) {
      try {
        this.#answer ??= await this.#ask()
        for await (const chunk of this.#chunksOf(this.#answer, pace)) {
          this.#received += chunk.length
          if (this.#received - sinceBytes >= pace.bytes) {
            failures = 0
            sinceBytes = this.#received
          }
          yield chunk
        }
        if (this.#received >= (this.#sent.bytes ?? 0)) return
        throw new OutboundFailure('unreachable', `${this.#received} bytes came of ${this.#sent.bytes}`)
      } catch (error) {
        failures += 1
        await this.#settle(error, failures)
      }
    }
  }

  /** Yields the body of one answer. Only the time spent waiting for the source counts for the pace. */
  async *#chunksOf({ chunks }: OutboundAnswer, { bytes, ms }: Pace): AsyncGenerator<Uint8Array> {
    const reader = chunks[Symbol.asyncIterator]()
    for (let cameBytes = 0, waitedMs = 0; ;) {
      const askedAtMs = performance.now()
      const next = await this.#patient(reader.next())
      if (next.done === true) return
      waitedMs += performance.now() - askedAtMs
      cameBytes += next.value.length
      if (waitedMs >= ms) {
        if (cameBytes < bytes)
          throw new OutboundFailure('unreachable', `less than ${bytes / 1024} KiB came in ${ms / 1000} s`)
        cameBytes = 0
        waitedMs = 0
      }
      yield next.value
    }
  }

  async close(): Promise<void> {
    const answer = this.#answer
    this.#answer = undefined
    await answer?.close()
  }

  async #ask(): Promise<OutboundAnswer> {
    this.#stall = new AbortController()
    const answer = await this.#patient(
      this.#terms.outbound.ask({
        method: 'GET',
        url: this.#url,
        // The connection is closed, because no other request follows soon.
        headers: {
          connection: 'close',
          ...(this.#received === 0 ? {} : resumeFields(this.#received, this.#sent)),
        },
        signal: AbortSignal.any([this.#signal, this.#stall.signal]),
      }),
    )
    try {
      await this.#judge(answer)
      return answer
    } catch (error) {
      if (this.#answer !== answer) await answer.close()
      throw error
    }
  }

  async #judge(answer: OutboundAnswer): Promise<void> {
    const { status, headers } = answer
    // The status comes first: an error page may be encoded.
    if (status >= 300) await this.#refuse(answer)
    const isResumed = this.#received > 0
    if (status !== 200 && !(isResumed && status === 206)) throw this.#fault(`it answered ${status}`)
    if (isEncoded(headers['content-encoding']))
      throw this.#fault('it encoded the body, although asked not to')
    if (isResumed) this.#resume(answer)
    else this.#begin(answer)
  }

  /** Throws what an answer without the image means. Its body has the time of one stall in all. */
  async #refuse(answer: OutboundAnswer): Promise<never> {
    const { status, headers } = answer
    const code = errorCodeIn(await this.#patient(textOf(answer)))
    const { kind, because } = judgeAnswer({ status, code })
    if (kind !== 'busy')
      throw this.#fault(this.#received === 0 ? because : `${because} when asked for the rest`)
    const asked = parseRetryAfter(headers['retry-after'], Date.now()) ?? 0
    this.#retryAfterMs = Math.min(asked, limits.retryAfterMsMax)
    throw new OutboundFailure('unreachable', because)
  }

  #begin({ headers }: OutboundAnswer): void {
    this.#sent = sentBy(headers)
    const { bytesMax, bound } = this.#terms
    if ((this.#sent.bytes ?? 0) > bytesMax)
      throw this.#fault(excessWords(bound, this.#sent.bytes), bound.excess)
  }

  /** Continues after a break. Throws {@link SourceRestarted} if the bytes received so far are useless. */
  #resume(answer: OutboundAnswer): void {
    const judged = judgeResumption(answer.status, answer.headers, this.#received, this.#sent)
    if (judged.kind === 'refused') throw this.#fault(`it ${judged.because}`)
    if (judged.kind === 'resumed') {
      this.#sent = { ...this.#sent, ...given({ bytes: judged.bytes }) }
      return
    }
    if (this.#hasRestarted)
      throw this.#fault('it sent the image from the beginning again, although asked for the rest')
    this.#hasRestarted = true
    this.#received = 0
    if (judged.kind === 'restarted') {
      this.#begin(answer)
      this.#answer = answer
    }
    throw new SourceRestarted()
  }

  /** Waits until another try makes sense; throws if none does. */
  async #settle(error: unknown, failures: number): Promise<void> {
    if (error instanceof SourceRestarted) throw error
    await this.close()
    if (!(error instanceof OutboundFailure)) throw error
    if (error.kind === 'not_allowed') throw this.#fault(error.message, 'image_source_refused')
    const { resumeDelayMs = backOff, stallMs } = this.#terms
    // A fetch keeps its place meanwhile, so the wait is no longer than that for a source that is silent.
    const mayWait = this.#retryAfterMs > 0 && this.#retryAfterMs <= stallMs
    if ((this.#received === 0 && !mayWait) || failures > limits.imageResumesMax)
      throw this.#fault(error.message)
    this.#broke = error.message
    // Before the first byte the wait does not grow beyond what the source asks for: the fetch keeps its place
    // meanwhile.
    const delayMs = resumeDelayMs(this.#received === 0 ? 1 : failures, this.#retryAfterMs)
    this.#retryAfterMs = 0
    this.#logBreak(failures, error.message, delayMs)
    await sleep(delayMs, undefined, { signal: this.#signal })
  }

  #logBreak(failures: number, reason: string, delayMs: number): void {
    const { hostname: server } = this.#url
    const fields = { server, bytes: this.#received, failures, reason, resumed_in_ms: Math.round(delayMs) }
    this.#terms.log.info(fields, 'image fetch broke off; resumed later')
  }

  /** Aborts the exchange if the source sends nothing for `stallMs`. */
  async #patient<T>(waiting: Promise<T>): Promise<T> {
    const { stallMs } = this.#terms
    const timer = setTimeout(() => {
      this.#stall.abort(new OutboundFailure('unreachable', `nothing came for ${stallMs / 1000} s`))
    }, stallMs)
    try {
      return await waiting
    } finally {
      clearTimeout(timer)
    }
  }

  /** Makes the fault of the last request. An earlier break did not cause it, but says why there was another request. */
  #fault(why: string, code: FaultCode = 'image_unavailable'): HostFault {
    const before = code === 'image_unavailable' && this.#broke !== why ? this.#broke : undefined
    const words = before === undefined ? why : `${why}, after ${before}`
    return new HostFault(code, `asking ${this.#url.hostname}`, { cause: new Error(words) })
  }
}

/** Returns whether a Content-Encoding names one that changes the bytes. Names ignore case (RFC 9110, 8.4.1). */
const isEncoded = (field: string = ''): boolean =>
  field.split(',').some((name) => !ENCODINGS.includes(name.trim().toLowerCase()))

const backOff = (failures: number, retryAfterMs: number): number =>
  sendDelayMs(failures, Math.random(), retryAfterMs)
