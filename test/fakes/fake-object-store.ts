import { createHash } from 'node:crypto'
import { checkUrl } from '../../src/core/outbound/outbound-policy.ts'
import type { HostFault } from '../../src/core/errors.ts'
import type { OutboundPolicy } from '../../src/core/outbound/outbound-policy.ts'
import type { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import type {
  CompleteOutcome,
  HeadOutcome,
  ObjectStore,
  PartOutcome,
  PartToSend,
  Unsent,
} from '../../src/ports/object-store.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'
import { ANYWHERE } from './outbound.ts'

type Method = 'putPart' | 'complete' | 'head'

/** One request that reached the store, or was refused on the way. */
export type FakeRequest = {
  readonly method: Method
  readonly key: string
  /** Number of the part. */
  readonly number?: number
  /** Bytes of the body that the store took off the wire. */
  bytes: number
  /** Outcome that the caller got; undefined while the request is under way, or if it was aborted. */
  outcome?: PartOutcome['kind'] | CompleteOutcome['kind'] | HeadOutcome['kind']
}

export type FakeObjectStoreOptions = {
  /** Origin that its URLs point to. */
  readonly origin?: string
  /** Allows any address when absent. */
  readonly policy?: OutboundPolicy
  /**
   * Whether a completed upload is unknown afterwards, as on AWS some time later; otherwise completing again answers the
   * same.
   */
  readonly forgetsCompleted?: boolean
  /** Smallest size of every part but the last; S3 itself requires 5 MiB. */
  readonly partBytesMin?: number
}

/** An S3-compatible store, in memory: multipart uploads by signed URLs, and the objects that they become. */
export class FakeObjectStore implements ObjectStore {
  /** Finished objects by their keys. */
  readonly objects = new Map<string, Buffer>()
  /** Requests in the order in which they came. */
  readonly requests: FakeRequest[] = []
  readonly #options: FakeObjectStoreOptions
  readonly #uploads = new Map<string, FakeUpload>()
  readonly #switch = new FaultSwitch<Method>()
  readonly #answers: { readonly method: Method; readonly answer: Unsent; readonly moment: FaultMoment }[] = []

  constructor(options: FakeObjectStoreOptions = {}) {
    this.#options = options
  }

  /** Begins a multipart upload, as the controller does as the owner of the bucket. */
  openUpload(key = `image-${this.#uploads.size + 1}`): FakeUpload {
    const upload = new FakeUpload(`upload-${this.#uploads.size + 1}`, key, this.#options)
    this.#uploads.set(upload.id, upload)
    return upload
  }

  /** Sets the answer to the next such request; with `after` the store does the work, and only its answer is lost. */
  answerNext(method: Method, answer: Unsent, moment: FaultMoment = 'before'): void {
    this.#answers.push({ method, answer, moment })
  }

  /** Makes the next such request wait, before it does anything, until it is released or aborted. */
  holdNext(method: Method): () => void {
    return this.#switch.holdNext(method)
  }

  failNext(method: Method, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#switch.failNext(method, fault, moment)
  }

  /** Bytes of a part that were sent, over all its attempts; of all parts when no number is given. */
  bytesSent(key: string, number?: number): number {
    return this.requests
      .filter((request) => request.key === key && (number === undefined || request.number === number))
      .reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** Whether a URL is valid now. */
  takes(url: SignedUrl): boolean {
    return this.#uploadOf(askedIn(new URL(url.reveal()))) !== undefined
  }

  async putPart(part: PartToSend, signal: AbortSignal): Promise<PartOutcome> {
    signal.throwIfAborted()
    return this.#run<PartOutcome>('putPart', part.url, signal, async (upload, { number = 0 }, request) => {
      const body = await receive(part, request, signal)
      return upload.put(number, body, part.md5)
    })
  }

  async complete(
    url: SignedUrl,
    parts: readonly { readonly number: number; readonly etag: string }[],
    signal: AbortSignal,
  ): Promise<CompleteOutcome> {
    signal.throwIfAborted()
    return this.#run<CompleteOutcome>('complete', url, signal, (upload) => {
      const outcome = upload.complete(parts, this.objects.has(upload.key))
      if (outcome.kind === 'completed' && upload.object !== undefined)
        this.objects.set(upload.key, upload.object)
      return outcome
    })
  }

  async head(url: SignedUrl, signal: AbortSignal): Promise<HeadOutcome> {
    signal.throwIfAborted()
    return this.#run<HeadOutcome>('head', url, signal, (upload) => {
      const object = this.objects.get(upload.key)
      if (object === undefined) return { kind: 'absent' }
      const made = [...this.#uploads.values()].find((one) => one.object === object)
      return { kind: 'present', bytes: object.length, etag: made?.etag ?? md5Of(object) }
    })
  }

  #run<Outcome extends PartOutcome | CompleteOutcome | HeadOutcome>(
    method: Method,
    url: SignedUrl,
    signal: AbortSignal,
    effect: (upload: FakeUpload, asked: Asked, request: FakeRequest) => Promise<Outcome> | Outcome,
  ): Promise<Outcome | Unsent> {
    const judge = async (): Promise<Outcome | Unsent> => {
      const checked = checkUrl(url.reveal(), this.#options.policy ?? ANYWHERE)
      if (!checked.ok) return { kind: 'not_allowed', because: `its URL ${checked.error}` }
      const asked = askedIn(checked.value)
      const upload = this.#uploadOf(asked)
      if (upload === undefined || asked.method !== method) {
        return { kind: 'expired', because: 'it answered 403 (AccessDenied)' }
      }
      const { number } = asked
      const request: FakeRequest = { method, key: upload.key, bytes: 0, ...(number && { number }) }
      this.requests.push(request)
      const planned = this.#takeAnswer(method)
      if (planned?.moment === 'before') return this.#notify(request, planned.answer)
      const outcome = await effect(upload, asked, request)
      return this.#notify(request, planned?.answer ?? outcome)
    }
    return this.#switch.run(method, judge, signal)
  }

  #uploadOf({ uploadId, issue }: Asked): FakeUpload | undefined {
    const upload = this.#uploads.get(uploadId)
    return upload === undefined || issue < upload.validFrom ? undefined : upload
  }

  #notify<Outcome extends { readonly kind: FakeRequest['outcome'] & string }>(
    request: FakeRequest,
    outcome: Outcome,
  ): Outcome {
    request.outcome = outcome.kind
    return outcome
  }

  #takeAnswer(method: Method): { readonly answer: Unsent; readonly moment: FaultMoment } | undefined {
    const index = this.#answers.findIndex((planned) => planned.method === method)
    return index === -1 ? undefined : this.#answers.splice(index, 1)[0]
  }
}

/** A multipart upload, as seen by the owner of the bucket. */
export class FakeUpload {
  readonly id: string
  readonly key: string
  readonly parts = new Map<number, Buffer>()
  state: 'open' | 'completed' | 'aborted' = 'open'
  /** The object, once completed. */
  object: Buffer | undefined
  /** ETag of the object: the MD5 of the MD5s of its parts, and their number. */
  etag: string | undefined
  /** First issue of URLs that is valid; earlier ones are expired. */
  validFrom = 1
  readonly #options: FakeObjectStoreOptions

  constructor(id: string, key: string, options: FakeObjectStoreOptions) {
    this.id = id
    this.key = key
    this.#options = options
  }

  partUrl(number: number): string {
    return `${this.#urlFor('putPart')}&partNumber=${number}`
  }

  /** Returns the URLs of `count` parts, from `first` on. */
  partUrls(count: number, first = 1): string[] {
    return Array.from({ length: count }, (_, index) => this.partUrl(first + index))
  }

  get completeUrl(): string {
    return this.#urlFor('complete')
  }

  get headUrl(): string {
    return this.#urlFor('head')
  }

  /** Makes all URLs that were made until now expire. */
  expireUrls(): void {
    this.validFrom++
  }

  abort(): void {
    this.state = 'aborted'
    this.parts.clear()
  }

  put(number: number, body: Buffer, md5: string): PartOutcome {
    if (this.state !== 'open') return GONE
    const etag = md5Of(body)
    if (etag !== md5) return { kind: 'damaged', because: 'it answered 400 (BadDigest)' }
    this.parts.set(number, body)
    return { kind: 'stored', etag }
  }

  complete(
    parts: readonly { readonly number: number; readonly etag: string }[],
    objectIsThere: boolean,
  ): CompleteOutcome {
    if (this.state === 'completed' && objectIsThere && this.#options.forgetsCompleted !== true)
      return { kind: 'completed' }
    if (this.state !== 'open') return GONE
    const code = this.#refusalOf(parts)
    if (code !== undefined) return { kind: 'refused', because: `it answered 400 (${code})` }
    this.object = Buffer.concat(parts.map(({ number }) => this.parts.get(number) as Buffer))
    const etags = Buffer.concat(parts.map(({ etag }) => Buffer.from(etag, 'hex')))
    this.etag = `${md5Of(etags)}-${parts.length}`
    this.state = 'completed'
    return { kind: 'completed' }
  }

  #refusalOf(parts: readonly { readonly number: number; readonly etag: string }[]): string | undefined {
    if (parts.length === 0) return 'MalformedXML'
    if (parts.some(({ number }, index) => index > 0 && number <= (parts[index - 1]?.number ?? 0)))
      return 'InvalidPartOrder'
    const bodies = parts.map(({ number }) => this.parts.get(number))
    if (bodies.some((body, index) => body === undefined || md5Of(body) !== parts[index]?.etag))
      return 'InvalidPart'
    const least = this.#options.partBytesMin ?? 0
    return bodies.slice(0, -1).some((body) => (body?.length ?? 0) < least) ? 'EntityTooSmall' : undefined
  }

  #urlFor(method: Method): string {
    const query = `uploadId=${this.id}&method=${method}&issue=${this.validFrom}&X-Amz-Signature=5ecret`
    const { origin = 'https://store.example.net' } = this.#options
    return `${origin}/bucket/${this.key}?${query}`
  }
}

const GONE: Unsent = { kind: 'gone', because: 'it answered 404 (NoSuchUpload)' }

const md5Of = (body: Uint8Array): string => createHash('md5').update(body).digest('hex')

type Asked = {
  readonly method: string | null
  readonly uploadId: string
  readonly issue: number
  readonly number?: number
}

function askedIn({ searchParams }: URL): Asked {
  const number = Number(searchParams.get('partNumber') ?? 0)
  return {
    method: searchParams.get('method'),
    uploadId: searchParams.get('uploadId') ?? '',
    issue: Number(searchParams.get('issue')),
    ...(number > 0 && { number }),
  }
}

async function receive(
  { body, onSent }: PartToSend,
  request: FakeRequest,
  signal: AbortSignal,
): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of body.chunks(signal)) {
    signal.throwIfAborted()
    chunks.push(Buffer.from(chunk))
    request.bytes += chunk.length
    onSent?.(chunk.length)
  }
  signal.throwIfAborted()
  return Buffer.concat(chunks)
}
