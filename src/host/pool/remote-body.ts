import { setTimeout as sleep } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { judgeAnswer, parseRetryAfter } from '../../core/object-store/judge-answer.ts'
import { sendDelayMs } from '../../core/snapshot/work.ts'
import { judgeResumption, resumeFields, sentBy } from '../../core/storage/resume.ts'
import { OutboundFailure } from '../object-store/outbound-failure.ts'
import { BeginsAnew } from './image-body.ts'
import type { ImageBound } from '../../ports/storage.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { Sent } from '../../core/storage/resume.ts'
import type { Outbound, OutboundAnswer } from '../object-store/outbound-request.ts'
import type { ImageBody } from './image-body.ts'

const MIB = 1024 * 1024

export type RemoteTerms = {
  readonly outbound: Outbound
  /** Of what is sent, packed or not. */
  readonly bytesMax: number
  /** What a source that announces more breaks. */
  readonly bound: ImageBound
  readonly stallMs: number
  /** What must come in so long a time of waiting for it; of the limits where absent. */
  readonly pace?: Pace
  /** How long to wait after so many tries that failed in a row, the store having asked for so long. */
  readonly resumeDelayMs?: (failures: number, retryAfterMs: number) => number
}

export type Pace = { readonly bytes: number; readonly ms: number }

const LEAST_PACE: Pace = { bytes: limits.fetchPaceBytesMin, ms: limits.fetchPaceMs }

/** Packed with zstd is what an image may be anyhow. */
const ENCODINGS: readonly string[] = ['identity', 'zstd']

/**
 * An image over HTTP. What broke off is asked for again from where it stands, once something has come: a source that never
 * sent a byte has failed, and whoever wants the image tries again later. One that sends a byte now and then is as good as one
 * that sends none: it would keep others from fetching. Nothing that is thrown has more of the URL than
 * the host's name.
 */
export class RemoteBody implements ImageBody {
  readonly #url: URL
  readonly #terms: RemoteTerms
  readonly #signal: AbortSignal
  /** What is read, or is to be read next. */
  #answer: OutboundAnswer | undefined
  #stall = new AbortController()
  #sent: Sent = {}
  #received = 0
  #hasBegunAnew = false
  /** How the last answer ended before its time. */
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

  /** What comes of one answer. Only the time counts in which the source is waited for. */
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
        // Nobody asks there again soon.
        headers: {
          connection: 'close',
          ...(this.#received === 0 ? {} : resumeFields(this.#received, this.#sent)),
        },
        signal: AbortSignal.any([this.#signal, this.#stall.signal]),
      }),
    )
    try {
      this.#judge(answer)
      return answer
    } catch (error) {
      if (this.#answer !== answer) await answer.close()
      throw error
    }
  }

  #judge(answer: OutboundAnswer): void {
    const { status, headers } = answer
    const refusal = judgeAnswer({ status })
    if (status >= 300 && refusal.kind === 'busy') {
      const asked = parseRetryAfter(headers['retry-after'], Date.now()) ?? 0
      this.#retryAfterMs = Math.min(asked, limits.retryAfterMsMax)
      throw new OutboundFailure('unreachable', refusal.because)
    }
    const encoding = headers['content-encoding'] ?? 'identity'
    if (!ENCODINGS.includes(encoding)) throw this.#fault('it encoded the body, although asked not to')
    if (this.#received > 0) this.#resume(answer)
    else if (status === 200) this.#begin(answer)
    else throw this.#fault(`it answered ${status}`)
  }

  #begin({ headers }: OutboundAnswer): void {
    this.#sent = sentBy(headers)
    const { bytesMax, bound } = this.#terms
    if ((this.#sent.bytes ?? 0) > bytesMax) {
      throw this.#fault(
        `it has ${this.#sent.bytes} bytes, more than the ${bound.bytesMax / MIB} MiB that are taken`,
        bound.excess,
      )
    }
  }

  /** Throws {@link BeginsAnew} where what came is of no use any more. */
  #resume(answer: OutboundAnswer): void {
    const judged = judgeResumption(answer.status, answer.headers, this.#received, this.#sent)
    if (judged.kind === 'refused') throw this.#fault(`it ${judged.because}`)
    if (judged.kind === 'goes_on') {
      this.#sent = { ...this.#sent, ...(judged.bytes !== undefined && { bytes: judged.bytes }) }
      return
    }
    if (this.#hasBegunAnew)
      throw this.#fault('it sent the image from the beginning again, although asked for the rest')
    this.#hasBegunAnew = true
    this.#received = 0
    if (judged.kind === 'begins_anew') {
      this.#begin(answer)
      this.#answer = answer
    }
    throw new BeginsAnew()
  }

  /** Waits until it is worth to ask again; throws where it is not. */
  async #settle(error: unknown, failures: number): Promise<void> {
    if (error instanceof BeginsAnew) throw error
    await this.close()
    if (!(error instanceof OutboundFailure)) throw error
    if (error.kind === 'not_allowed') throw this.#fault(error.message, 'image_source_refused')
    if (this.#received === 0 || failures > limits.imageResumesMax) throw this.#fault(error.message)
    this.#broke = error.message
    const { resumeDelayMs = backOff } = this.#terms
    const delayMs = resumeDelayMs(failures, this.#retryAfterMs)
    this.#retryAfterMs = 0
    await sleep(delayMs, undefined, { signal: this.#signal })
  }

  /** Ends the exchange where the source keeps us waiting. */
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

  #fault(why: string, code: FaultCode = 'image_unavailable'): HostFault {
    const before = this.#broke === undefined || this.#broke === why ? {} : { cause: new Error(this.#broke) }
    return new HostFault(code, `asking ${this.#url.hostname}`, { cause: new Error(why, before) })
  }
}

const backOff = (failures: number, retryAfterMs: number): number =>
  sendDelayMs(failures, Math.random(), retryAfterMs)
