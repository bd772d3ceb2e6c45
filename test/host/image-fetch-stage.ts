/** A real pool, and sources of images on the loopback device of a test's own network. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { Server as HttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { inspect } from 'node:util'
import { HostFault } from '../../src/core/errors.ts'
import { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import type { Sha256 } from '../../src/core/ids.ts'
import { Outbound } from '../../src/host/outbound/outbound-request.ts'
import type { OutboundOptions } from '../../src/host/outbound/outbound-request.ts'
import { Pool } from '../../src/host/storage/pool.ts'
import type { PoolOptions } from '../../src/host/storage/pool.ts'
import { markPool } from '../../src/host/pool/pool-marker.ts'
import type { ImageBound } from '../../src/ports/storage.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { silentLog } from '../../src/log/log.ts'
import { ANYWHERE } from '../fakes/outbound.ts'
import { atEnd } from '../contract/at-end.ts'

export const never = new AbortController().signal
export const SECRET = 'X-Signature=5ecret'
export const content = randomBytes(300_000)
export const sha256Of = (bytes: Uint8Array): Sha256 =>
  createHash('sha256').update(bytes).digest('hex') as Sha256
export const sha256 = sha256Of(content)

export type Stage = {
  readonly pool: (options?: Partial<PoolOptions>) => Pool
  readonly directory: string
  readonly base: string
  readonly temporaries: () => string[]
  readonly images: () => string[]
  /** Path of the image in the pool. */
  readonly stored: (sha256?: Sha256) => Buffer
}

const POLICY = { ...ANYWHERE, allowHttp: true, allowedNetworks: ['127.0.0.1/32'] }

/** Allows 127.0.0.1, where the tests serve, and no other address that every host refuses. */
export const outboundOf = (t: TestContext, options: Partial<OutboundOptions> = {}): Outbound => {
  const outbound = new Outbound({ ...options, policy: { ...POLICY, ...options.policy } })
  atEnd(t, () => outbound.close())
  return outbound
}

export async function stageOf(t: TestContext): Promise<Stage> {
  const base = mkdtempSync(join(tmpdir(), 'vmh-fetch-'))
  atEnd(t, () => rmSync(base, { recursive: true }))
  const directory = join(base, 'pool')
  const { poolId } = await markPool(directory)
  const outbound = outboundOf(t)
  return {
    base,
    directory,
    pool: (options = {}) => new Pool({ directory, poolId, outbound, log: silentLog, ...options }),
    temporaries: () => readdirSync(join(directory, 'tmp')),
    images: () => readdirSync(join(directory, 'images')),
    stored: (digest = sha256) => readFileSync(join(directory, 'images', digest)),
  }
}

/** Serves; returns the signed URL of an image. */
export async function serve(
  t: TestContext,
  answer: RequestListener,
  server: Server = createHttpServer(),
): Promise<string> {
  server.on('request', answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return `${server instanceof HttpsServer ? 'https' : 'http'}://127.0.0.1:${port}/images/secret-path?${SECRET}`
}

export const send = (_request: IncomingMessage, response: ServerResponse): void => {
  response.end(content)
}

export type Ask = { readonly digest?: Sha256; readonly signal?: AbortSignal; readonly bound?: ImageBound }

export const ensure = (
  pool: Pool,
  url: string,
  { digest = sha256, signal = never, bound }: Ask = {},
): Promise<void> => pool.ensureImage(digest, { url: new SignedUrl(url) }, signal, bound)

/** Returns the fault, after a check that it contains no secret. */
export async function faultOf(promise: Promise<unknown>): Promise<HostFault> {
  const error = await promise.then(
    () => assert.fail('it should have failed'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof HostFault, inspect(error))
  const everything = `${errorChain(error)} ${inspect(error, { depth: 20, showHidden: true })}`
  assert.doesNotMatch(everything, /5ecret|secret-path/)
  return error
}
