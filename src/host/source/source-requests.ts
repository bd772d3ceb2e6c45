import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { isSourceFault } from '../../core/migration/source-faults.ts'
import { isObject, parsedJson } from '../../lib/parsed-values.ts'
import { err, ok } from '../../lib/result.ts'
import { cutText } from '../../lib/text.ts'
import { OutboundFailure } from '../outbound/outbound-failure.ts'
import { NodeFilesUnusable } from './node-outbound.ts'
import { Silence } from './silence.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { SourceRefusal } from '../../core/migration/departure.ts'
import type { Answered } from '../../ports/source-host.ts'
import type { OutboundAnswer, OutboundRequest } from '../outbound/outbound-request.ts'
import type { SourceBytes } from './continued-frames.ts'
import type { NodeOutbound } from './node-outbound.ts'

export type SourceRequest = {
  /** Path and query. */
  readonly path: string
  /** The body of a POST; absent for a GET. */
  readonly body?: object
  readonly signal: AbortSignal
}

/** Checks whether a value fits a schema. */
export type Fits<T> = (value: unknown) => value is T

/** Refusals by the code of the problem that the source answers with. */
const REFUSALS: ReadonlyMap<unknown, SourceRefusal> = new Map<unknown, SourceRefusal>([
  ['not_found', 'unknown'],
  ['migration_withdrawn', 'withdrawn'],
  ['migration_released', 'released'],
  ['migration_not_yours', 'not_yours'],
  ['migration_too_early', 'too_early'],
  ['migration_outdated', 'outdated'],
  ['migrations_busy', 'busy'],
  ['starting_up', 'busy'],
])

/** The source answered, but not as its API does. */
class OddAnswer extends Error {
  override readonly name = 'OddAnswer'
}

/** The source's host could not do what was asked. */
class SourceFault extends Error {
  override readonly name = 'SourceFault'
  readonly code: FaultCode

  constructor(code: FaultCode, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * Sends requests to the coordination API of one host. Throws HostFault `source_unreachable` if no answer came,
 * `source_refused` if one side does not accept the certificate of the other, or the answer is not one of that API, and
 * the source's own code if its host has a fault (core/migration/source-faults.ts).
 */
export class SourceRequests {
  readonly #origin: string
  readonly #outbound: NodeOutbound

  constructor(origin: string, outbound: NodeOutbound) {
    this.#origin = origin
    this.#outbound = outbound
  }

  /** Returns the answer, which fits the schema. It may have members that the schema does not have. */
  async json<T>(request: SourceRequest, fits: Fits<T>): Answered<T> {
    const silence = new Silence(request.signal)
    let answer: OutboundAnswer | undefined
    try {
      answer = await this.#ask(request, silence)
      const value = parsedJson(await textOf(answer, silence))
      if (answer.status !== 200) return refused(answer.status, value)
      if (fits(value)) return ok(value)
      throw new OddAnswer('its answer is not one that this version knows')
    } catch (error) {
      throw this.#fault(error, silence)
    } finally {
      silence.pause()
      await answer?.close()
    }
  }

  /** Returns the bytes of the answer. Reading throws as `json` does. It must end, or be given up with `return`. */
  async bytes(request: SourceRequest): Answered<SourceBytes> {
    const silence = new Silence(request.signal)
    let answer: OutboundAnswer | undefined
    let isRead = false
    try {
      answer = await this.#ask(request, silence)
      if (answer.status !== 200) return refused(answer.status, parsedJson(await textOf(answer, silence)))
      isRead = true
      return ok(closable(this.#read(answer, silence), answer))
    } catch (error) {
      throw this.#fault(error, silence)
    } finally {
      silence.pause()
      if (!isRead) await answer?.close()
    }
  }

  async *#read(answer: OutboundAnswer, silence: Silence): SourceBytes {
    try {
      silence.restart()
      for await (const chunk of answer.chunks) {
        // The time that the reader takes is not the source's.
        silence.pause()
        yield chunk
        silence.restart()
      }
    } catch (error) {
      throw this.#fault(error, silence)
    } finally {
      silence.pause()
      await answer.close()
    }
  }

  #ask({ path, body }: SourceRequest, silence: Silence): Promise<OutboundAnswer> {
    const url = URL.parse(this.#origin)
    if (url === null || !isOrigin(url)) throw new OddAnswer('its URL is not like https://10.0.0.1:9001')
    return this.#outbound.ask({
      method: body === undefined ? 'GET' : 'POST',
      isRepeatable: true,
      keepsRedirects: true,
      url: new URL(path, url),
      signal: silence.signal,
      ...(body === undefined ? {} : bodyOf(body)),
    })
  }

  /** Returns what a failed request throws. */
  #fault(error: unknown, { caller }: Silence): unknown {
    if (caller.aborted) return caller.reason
    const code = codeOf(error)
    return code === undefined
      ? error
      : new HostFault(code, `asking the source ${this.#origin}`, { cause: error })
  }
}

/**
 * Lets `return` close the answer also before the first chunk was asked for: a generator that did not begin has no end.
 */
function closable(chunks: SourceBytes, answer: OutboundAnswer): SourceBytes {
  const end = chunks.return.bind(chunks)
  return Object.assign(chunks, {
    return: async () => {
      try {
        return await end()
      } finally {
        await answer.close()
      }
    },
  })
}

/** Returns the code of the fault that an error means; undefined for a bug. */
function codeOf(error: unknown): FaultCode | undefined {
  if (error instanceof SourceFault) return error.code
  if (error instanceof NodeFilesUnusable || error instanceof OddAnswer) return 'source_refused'
  if (!(error instanceof OutboundFailure)) return undefined
  return error.kind === 'unreachable' ? 'source_unreachable' : 'source_refused'
}

/** Whether a URL has neither user, path, query nor fragment. */
const isOrigin = ({ protocol, username, password, pathname, search, hash }: URL): boolean =>
  protocol === 'https:' && [username, password, search, hash].every((part) => part === '') && pathname === '/'

/** Returns why the source gives nothing. Throws if its API would not answer so. */
function refused(status: number, value: unknown): { readonly ok: false; readonly error: SourceRefusal } {
  const { code, detail } = isObject(value) ? value : {}
  const refusal = REFUSALS.get(code)
  if (refusal !== undefined) return err(refusal)
  const words = typeof detail === 'string' ? `: ${cutText(detail, limits.faultCharactersMax)}` : ''
  const because = `it answers with status ${status}${words}`
  if (status >= 500 && isSourceFault(code)) throw new SourceFault(code, because)
  // The source has another fault, or is stopping; it can say more later.
  throw status >= 500 ? new OutboundFailure('unreachable', because) : new OddAnswer(because)
}

function bodyOf(body: object): Pick<OutboundRequest, 'headers' | 'write'> {
  const bytes = Buffer.from(JSON.stringify(body))
  return {
    headers: { 'content-type': 'application/json', 'content-length': bytes.length },
    write: async (request) => void request.end(bytes),
  }
}

async function textOf({ chunks }: OutboundAnswer, silence: Silence): Promise<string> {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const chunk of chunks) {
    silence.restart()
    length += chunk.length
    if (length > limits.sourceAnswerBytesMax)
      throw new OddAnswer(`its answer has more than ${limits.sourceAnswerBytesMax} bytes`)
    parts.push(chunk)
  }
  return Buffer.concat(parts).toString()
}
