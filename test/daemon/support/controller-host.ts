import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request as httpsRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { createApiClient } from '../../../src/client/api-client.ts'
import { clientsOf } from '../../../src/api/controller/clients.ts'
import { bindControllerApi } from '../../../src/api/controller/controller-api.ts'
import { createAuthority, issueCertificate } from '../../../src/daemon/setup/certificates.ts'
import { createLog } from '../../../src/log/logger.ts'
import { newOperationId } from '../../../src/log/log.ts'
import { Store } from '../../../src/store/store.ts'
import { composed, listening, settingsWith } from '../../composed.ts'
import { FakeCapacity } from '../../fakes/fake-capacity.ts'
import { FakeClock } from '../../fakes/fake-clock.ts'
import { FakeFigures } from '../../fakes/fake-figures.ts'
import { FakeGuestShells } from '../../fakes/fake-guest-shells.ts'
import { FakeHost } from '../../fakes/fake-host.ts'
import { assertDocumented } from './documented.ts'
import type { ApiName } from './documented.ts'
import type { IncomingHttpHeaders } from 'node:http'
import type { RequestOptions } from 'node:https'
import type { TestContext } from 'node:test'
import type { TlsFiles } from '../../../src/api/listener/tls-files.ts'
import type { ConfiguredClient } from '../../../src/api/controller/clients.ts'
import type { ApiClient } from '../../../src/client/api-client.ts'
import type { GuestShells } from '../../../src/ports/guest-shells.ts'
import type { Waits } from '../../../src/api/controller/waits.ts'
import type { ConsoleHub } from '../../../src/owners/console/console-hub.ts'
import type { SshSessions } from '../../../src/owners/console/ssh-sessions.ts'
import type { Listener } from '../../../src/api/listener/listener.ts'
import type { ApiDependencies } from '../../../src/api/controller/dependencies.ts'
import type { CoordinationDependencies } from '../../../src/api/coordination/dependencies.ts'
import type { SnapshotId } from '../../../src/core/snapshots/record.ts'
import type { VmId } from '../../../src/core/ids.ts'
import type { CommandContext } from '../../../src/commands/context.ts'
import type { CertificatePair, LeafRequest } from '../../../src/daemon/setup/certificates.ts'

export const COMMON_NAME = 'vmhost-controller'

const controllerLeaf: LeafRequest = { commonName: COMMON_NAME, alternativeNames: [], usages: ['client'] }

/** One authority for a whole test file; making keys takes time. */
export type Pki = {
  readonly authority: CertificatePair
  readonly server: CertificatePair
  readonly controller: CertificatePair
  readonly issue: (leaf: Partial<LeafRequest>) => Promise<CertificatePair>
}

export async function makePki(): Promise<Pki> {
  const authority = await createAuthority('test authority', Date.now())
  const issue = async (leaf: Partial<LeafRequest>): Promise<CertificatePair> =>
    issueCertificate(authority, { ...controllerLeaf, ...leaf }, Date.now())
  return {
    authority,
    issue,
    server: await issue({
      commonName: 'host-1',
      alternativeNames: ['localhost', '127.0.0.1'],
      usages: ['server'],
    }),
    controller: await issue({}),
  }
}

/** JSON of any shape: a test reads the members that it expects. */
export type Json = ReturnType<typeof JSON.parse>

export type Answer = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly sessionReused: boolean
  /** The body as JSON. */
  readonly json: Json
}

export type Call = {
  readonly method?: string
  readonly path: string
  readonly headers?: Record<string, string | readonly string[]>
  /** Sent unchanged if it is text or bytes, otherwise as JSON. */
  readonly body?: unknown
  readonly client?: RequestOptions
  /** API whose document must have the answer; the controller API if absent. */
  readonly api?: ApiName
}

export type ControllerHost = {
  /** Directory of the store. */
  readonly directory: string
  readonly store: Store
  readonly capacity: FakeCapacity
  readonly waits: Waits<VmId>
  readonly snapshotWaits: Waits<SnapshotId>
  /** Host that plans and counters are read from. It is not reconciled. */
  readonly host: FakeHost
  /** Viewers of the fake host's consoles. */
  readonly hub: ConsoleHub
  /** Guests with SSH, unless the test brought others. */
  readonly guests: FakeGuestShells
  readonly sessions: SshSessions
  /** Time for consoles; it moves only when the test moves it. */
  readonly clock: FakeClock
  /** Figures of the host. */
  readonly figures: FakeFigures
  readonly context: CommandContext
  /** The parts of the daemon that the API gets. */
  readonly dependencies: ApiDependencies
  /** The departures as the coordination API would serve them to other hosts. */
  readonly departures: CoordinationDependencies['departures']
  readonly pokes: string[]
  readonly logLines: string[]
  readonly port: number
  readonly files: TlsFiles
  /** Names that the daemon reports as waited for. */
  waitingFor: string[]
  storeIsOpen: boolean
  /** The client that is generated from the OpenAPI document, for correct uses of the API. */
  readonly api: ApiClient
  /** Sends a request of any shape, for uses that the client does not allow. */
  call(call: Call): Promise<Answer>
  close(boundMs: number): Promise<void>
  /** Listens on the same port again after `close`, as the next life of the daemon. */
  reopen(): Promise<void>
}

export type ControllerHostOptions = {
  readonly userIds?: number
  /** Changes of the configuration. */
  readonly settings?: Parameters<typeof settingsWith>[0]
  readonly shells?: GuestShells
  /** Maximum number of connections that calls share; one for each call under way unless given. */
  readonly connectionsMax?: number
  /** Revocation list (PEM); without one, nothing is revoked. */
  readonly revocations?: string
  /** Clients besides the controller. */
  readonly clients?: readonly ConfiguredClient[]
}

const SETTINGS = { storage: { localImagesDirectory: '/' }, snapshots: { stagingQuotaMib: 1024 } }

/** Starts the controller API on loopback with real TLS and a real store in a directory of its own. */
export async function startControllerHost(
  t: TestContext,
  pki: Pki,
  options: ControllerHostOptions = {},
): Promise<ControllerHost> {
  const { userIds = 3, shells, connectionsMax = Infinity, clients = [], revocations, settings } = options
  const directory = mkdtempSync(join(tmpdir(), 'controller-'))
  const files = writePki(directory, pki, revocations)
  const pokes: string[] = []
  const logLines: string[] = []
  const capacity = new FakeCapacity()
  const clock = new FakeClock()
  // With the time, numbers of events and revisions have as many digits as those of a real daemon.
  const store = new Store(directory, { first: 600_000, count: userIds }, { nowMs: clock.now() })
  const host = new FakeHost(clock, store.storeId)
  const guests = new FakeGuestShells()
  const figures = new FakeFigures()
  const state = { waitingFor: [] as string[], storeIsOpen: true }
  const {
    commands: context,
    shells: sessions,
    api: dependencies,
    coordination: { departures },
  } = composed({
    store,
    host,
    figures,
    shells: shells ?? guests,
    isDescriptorStoreAvailable: async () => host.descriptorStoreAvailable,
    settings: settingsWith({ ...SETTINGS, ...settings }),
    readiness: { waitingFor: () => state.waitingFor, takesCommands: () => state.storeIsOpen },
    newOperationId,
    log: createLog({ level: 'debug', priorityPrefix: false, write: (line) => logLines.push(line) }),
    instead: { capacity, actors: listening((line) => pokes.push(line)) },
  })
  const { waits, snapshotWaits, consoles: hub } = dependencies
  const listener = {
    address: '127.0.0.1',
    clients: clientsOf(COMMON_NAME, clients),
    tlsFiles: files,
    nodeFiles: { certificate: join(directory, 'node.crt') },
    certificateRecheckMs: 20,
    version: dependencies.version,
    log: dependencies.log,
  }
  const listen = async (port: number): Promise<Listener> => {
    const bound = await bindControllerApi({ ...listener, port })
    return bound.serve(dependencies)
  }
  let api = await listen(0)
  const agent = new Agent({ keepAlive: true, maxSockets: connectionsMax })
  const client = {
    ca: pki.authority.certificate,
    cert: pki.controller.certificate,
    key: pki.controller.key,
    agent,
  }
  const connection = {
    url: `https://127.0.0.1:${api.port}`,
    ca: client.ca,
    cert: client.cert,
    key: client.key,
  }
  const typed = createApiClient(connection)
  // The pokes of a request come in a turn after its answer.
  typed.use({
    onResponse: async ({ request, response }) => {
      await assertDocumentedAnswer(request, response)
      await nextTurn()
    },
  })
  let closed = false
  const close = async (boundMs: number): Promise<void> => {
    closed = true
    await api.close(boundMs)
  }
  const reopen = async (): Promise<void> => {
    api = await listen(api.port)
    closed = false
  }
  t.after(async () => {
    agent.destroy()
    typed.close()
    if (!closed) await close(0)
    store.close()
    rmSync(directory, { recursive: true })
  })
  const call = async (given: Call): Promise<Answer> => {
    const answer = await send(api.port, { client, ...given })
    await nextTurn()
    return answer
  }
  return Object.assign(state, {
    api: typed,
    directory,
    store,
    capacity,
    waits,
    snapshotWaits,
    host,
    hub,
    guests,
    sessions,
    clock,
    figures,
    context,
    dependencies,
    departures,
    pokes,
    logLines,
    port: api.port,
    files,
    call,
    close,
    reopen,
  })
}

/** Checks the typed client's answers against the document, as {@link send} does for its own. */
async function assertDocumentedAnswer({ method, url }: Request, response: Response): Promise<undefined> {
  const { pathname, search } = new URL(url)
  const isJson = /json/.test(response.headers.get('content-type') ?? '')
  const body = isJson ? ((await response.clone().json()) as { code?: string }) : undefined
  const code = response.status < 400 ? undefined : body?.code
  await assertDocumented({
    method,
    path: `${pathname}${search}`,
    status: response.status,
    mediaType: response.headers.get('content-type') ?? undefined,
    ...(code === undefined ? {} : { code }),
    ...(body === undefined ? {} : { body }),
  })
}

export function writePki(
  directory: string,
  { authority, server }: Pki,
  revocations?: string,
): ControllerHost['files'] {
  mkdirSync(directory, { recursive: true })
  const files = {
    ca: join(directory, 'ca.crt'),
    certificate: join(directory, 'server.crt'),
    key: join(directory, 'server.key'),
  }
  writeFileSync(files.ca, authority.certificate)
  writeFileSync(files.certificate, server.certificate)
  writeFileSync(files.key, server.key)
  if (revocations === undefined) return files
  writeFileSync(join(directory, 'revoked.pem'), revocations)
  return { ...files, revocations: join(directory, 'revoked.pem') }
}

/**
 * Sends one request. Rejects if the connection or its handshake fails, or if the answer is not in the OpenAPI document.
 */
export async function send(port: number, call: Call): Promise<Answer> {
  const answer = await exchange(port, call)
  const seen = {
    method: call.method ?? 'GET',
    path: call.path,
    status: answer.status,
    mediaType: answer.headers['content-type'],
    ...(answer.status < 400 ? {} : { code: answer.json?.code }),
    body: answer.json,
  }
  await assertDocumented(seen, call.api)
  return answer
}

/** Sends one request. Rejects if the connection or its handshake fails. */
export async function exchange(port: number, call: Call): Promise<Answer> {
  const raw = typeof call.body === 'string' || call.body instanceof Uint8Array
  const body = call.body === undefined || raw ? call.body : JSON.stringify(call.body)
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const request = httpsRequest(
    {
      host: '127.0.0.1',
      port,
      method: call.method ?? 'GET',
      path: call.path,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...call.headers,
      },
      ...call.client,
    },
    (response) => {
      const { socket } = response
      const sessionReused = socket instanceof TLSSocket && socket.isSessionReused()
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString()
        const isJson = /json/.test(response.headers['content-type'] ?? '') && text !== ''
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          sessionReused,
          json: isJson ? JSON.parse(text) : undefined,
        })
      })
    },
  )
  request.on('error', reject)
  request.end(body)
  return promise
}

export const SHA = 'a'.repeat(64)

/** Returns a complete create request; `changes` replaces members. */
export const createBody = (changes: object = {}) => ({
  power: 'running',
  compute: { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 0 },
  disk: { size_mib: 2048 },
  image: {
    rootfs: { url: 'https://images.example.net/root.img?X-Amz-Signature=CANARY', sha256: SHA },
    kernel: { url: 'https://images.example.net/vmlinux?X-Amz-Signature=CANARY', sha256: 'b'.repeat(64) },
  },
  network: { ipv4_address: '192.0.2.10', ipv6_address: '2001:db8::10' },
  ...changes,
})

/** Returns an offer of a VM that expires an hour after the start of the host's clock; `changes` replaces members. */
export const offerBody = (changes: object = {}) => ({
  migration_id: 'move-7',
  node: 'node-2',
  mode: 'live',
  expires_at: '2030-01-01T01:00:00.000Z',
  ...changes,
})

/** Checks that an answer is a complete problem with this status and code, and returns it. */
export function assertProblem(
  answer: Pick<Answer, 'status' | 'headers' | 'text' | 'json'>,
  status: number,
  code: string,
) {
  assert.equal(answer.status, status, answer.text)
  assert.match(answer.headers['content-type'] ?? '', /^application\/problem\+json/)
  const { type, title, detail, retryable, request_id } = answer.json
  assert.equal(answer.json.code, code)
  assert.equal(answer.json.status, status)
  assert.equal(type, `/docs/errors#${code}`)
  assert.equal(typeof title, 'string')
  assert.equal(typeof detail, 'string')
  assert.equal(typeof retryable, 'boolean')
  assert.equal(request_id, answer.headers['x-request-id'])
  return answer.json
}
