import assert from 'node:assert/strict'
import { Agent } from 'node:https'
import { before, test } from 'node:test'
import { WebSocket } from 'ws'
import { limits } from '../../src/config/limits.ts'
import { rejections } from '../../src/core/problems/catalogue.ts'
import { namedRoutes } from '../../src/api/controller/access.ts'
import { assertProblem, createBody, makePki, send, startControllerHost } from './support/controller-host.ts'
import { createVm, refused, startConsole, watch, WEB } from './support/console-viewer.ts'
import { clientWith, startCoordinationHost } from './support/coordination-host.ts'
import { expectedRoles } from './support/expected-roles.ts'
import { endingPath } from './support/ending-path.ts'
import { eventually } from './support/eventually.ts'
import { start, startBody } from './support/snapshots.ts'
import type { RequestOptions } from 'node:https'
import type { TestContext } from 'node:test'
import type { ObservedState } from '../../src/core/vm/record.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { CertificatePair } from '../../src/daemon/setup/certificates.ts'
import type { ConfiguredClient } from '../../src/api/controller/clients.ts'
import type { Answer, Call, ControllerHost, Pki } from './support/controller-host.ts'

const OTHER = 'other-1' as VmId

const clients: readonly ConfiguredClient[] = [
  { commonName: 'second', role: 'controller' },
  { commonName: 'metrics', role: 'reader' },
  { commonName: 'anna', role: 'console', vm: WEB },
  { commonName: 'ops', role: 'console', label: 'team=web' },
]

let pki: Pki
const pairs = new Map<string, CertificatePair>()
before(async () => {
  pki = await makePki()
  for (const { commonName } of clients) pairs.set(commonName, await pki.issue({ commonName }))
})

const pairOf = (name: string): CertificatePair => pairs.get(name) ?? assert.fail(name)

const as = (name: string): RequestOptions => ({
  ...clientWith(pki, pairOf(name)),
  agent: new Agent({ keepAlive: false }),
})

type Stage = ControllerHost & { readonly ask: (name: string, call: Call) => Promise<Answer> }

async function stage(t: TestContext): Promise<Stage> {
  const host = await startControllerHost(t, pki, { clients })
  const ask = (name: string, call: Call): Promise<Answer> => send(host.port, { ...call, client: as(name) })
  return Object.assign(host, { ask })
}

const pathOf = (url: string): string =>
  endingPath(url)
    .replace(':sha256', 'a'.repeat(64))
    .replace(/(snapshots)\/:id/, '$1/nightly-1')
    .replace(':id', WEB)

test('each role gets past exactly the routes that are for it', async (t) => {
  const host = await stage(t)
  for (const name of namedRoutes) {
    const [method = '', url = ''] = name.split(' ')
    const roles = expectedRoles(name)
    for (const { commonName, role } of clients.filter((one) => one.label === undefined)) {
      const { status, json } = await host.ask(commonName, { method, path: pathOf(url) })
      const isRefused = status === 403 && json.code === 'role_required'
      assert.equal(isRefused, !roles.includes(role), `${commonName}: ${name}`)
    }
  }
})

test('a refusal says which role is needed, comes before the body is read, and changes nothing', async (t) => {
  const host = await stage(t)
  const call: Call = { method: 'PUT', path: '/v1/vms/web-1', body: 'not JSON' }
  const problem = assertProblem(await host.ask('metrics', call), 403, 'role_required')
  assert.equal(problem.detail, rejections.role_required.example)
  assert.equal(host.store.vms.ids().length, 0)
  const line = host.logLines.map((text) => JSON.parse(text)).find(({ level }) => level === 'audit')
  const { certificate_name, role, outcome, code } = line
  assert.deepEqual(
    { certificate_name, role, outcome, code },
    { certificate_name: 'metrics', role: 'reader', outcome: 'refused', code: 'role_required' },
  )
})

test('a second name with the role of the controller may change things', async (t) => {
  const host = await stage(t)
  const answer = await host.ask('second', { method: 'PUT', path: '/v1/vms/web-1', body: createBody() })
  assert.equal(answer.status, 202)
})

test('a reader gets the answers of the controller, and no secret is in them', async (t) => {
  const CANARY = 'Canary7f3b'
  const host = await stage(t)
  const secrets = {
    user_data: `#cloud-config\npassword: ${CANARY}\n`,
    ssh_authorized_keys: [`ssh-ed25519 AAAA${CANARY}`],
  }
  const image = createBody().image
  const url = `https://images.example.net/${CANARY}/k?X-Amz-Signature=${CANARY}`
  const body = createBody({ ...secrets, image: { ...image, kernel: { ...image.kernel, url } } })
  assert.equal((await host.call({ method: 'PUT', path: '/v1/vms/web-1', body })).status, 202)
  const started = await start(host, startBody({ part_urls: [`${url}&partNumber=1`] }))
  assert.equal(started.status, 202, started.text)
  for (const name of namedRoutes.filter((one) => one.startsWith('GET /v1/'))) {
    const path = pathOf(name.slice('GET '.length))
    const { status, text } = await host.ask('metrics', { path })
    assert.ok(!text.includes(CANARY), `${path}: ${text}`)
    if (!path.includes('/console')) assert.equal(status, (await host.call({ path })).status, path)
  }
})

/** Opens a console with the certificate of a client; resolves with `opened`, or with the code of the refusal. */
async function consoleAs(host: ControllerHost, name: string, vm: VmId, query = ''): Promise<string> {
  const { certificate, key } = pairOf(name)
  const options = { cert: certificate, key, ca: pki.authority.certificate }
  const socket = new WebSocket(`wss://127.0.0.1:${host.port}/v1/vms/${vm}/console${query}`, options)
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  socket.once('open', () => resolve('opened'))
  socket.once('unexpected-response', (_request, response) => {
    response.toArray().then((chunks) => resolve(JSON.parse(Buffer.concat(chunks).toString()).code), reject)
  })
  socket.once('error', reject)
  const outcome = await promise
  socket.terminate()
  return outcome
}

test('a console client opens the console of its VM, by id or by label, and of no other', async (t) => {
  const host = await stage(t)
  for (const id of [WEB, OTHER]) {
    const network = { ipv4_address: id === WEB ? '192.0.2.10' : '192.0.2.11' }
    await host.call({ method: 'PUT', path: `/v1/vms/${id}`, body: createBody({ network }) })
    await startConsole(host, id)
  }
  const labels = (team: string) => ({ labels: { team }, protected: false })
  await host.call({ method: 'PUT', path: `/v1/vms/${OTHER}/metadata`, body: labels('web') })
  assert.equal(await consoleAs(host, 'anna', WEB), 'opened')
  assert.equal(await consoleAs(host, 'anna', OTHER), 'role_required')
  assert.equal(await consoleAs(host, 'ops', OTHER), 'opened')
  assert.equal(await consoleAs(host, 'ops', WEB), 'role_required')
  assert.equal(await consoleAs(host, 'metrics', WEB), 'role_required')
  await host.call({ method: 'PUT', path: `/v1/vms/${OTHER}/metadata`, body: labels('db') })
  assert.equal(await consoleAs(host, 'ops', OTHER), 'role_required')
})

test('console clients cannot take every place at a console: the controller still gets in', async (t) => {
  const host = await stage(t)
  await createVm(host)
  await startConsole(host)
  host.guests.guest('192.0.2.10')
  host.store.vms.recordProgress(WEB, { observed: { state: 'running', sinceMs: 1000 }, nowMs: 2000 })
  const { certificate: cert, key } = pairOf('anna')
  for (const query of ['', '?mode=ssh']) {
    const dialling = { query, options: { cert, key } }
    await Promise.all(
      Array.from({ length: limits.consoleViewersOthersMax }, () => watch(t, host, pki, dialling)),
    )
    const problem = assertProblem(await refused(host, pki, dialling), 429, 'console_viewers_full')
    assert.match(problem.detail, /^12 viewers of clients that are not controllers /)
    await watch(t, host, pki, { query })
  }
})

test('a console client reads its own VM alone, and does not learn whether there is another', async (t) => {
  const host = await stage(t)
  await createVm(host)
  await createVm(host, OTHER).catch(() => {})
  assert.equal((await host.ask('anna', { path: '/v1/vms/web-1' })).status, 200)
  const detailOf = async (id: string): Promise<string> => {
    const answer = await host.ask('anna', { path: `/v1/vms/${id}` })
    return assertProblem(answer, 403, 'role_required').detail.replace(id, 'ID')
  }
  assert.equal(await detailOf(OTHER), await detailOf('nothing-1'))
  assert.match(await detailOf(OTHER), /; for VM ID this request needs the role controller or reader$/)
  const log = await host.ask('anna', { path: `/v1/vms/${OTHER}/console/log` })
  assert.equal(
    assertProblem(log, 403, 'role_required').detail,
    `the client certificate is for the console of VM web-1 alone; for VM ${OTHER} this request needs the role controller`,
  )
  const byLabel = assertProblem(await host.ask('ops', { path: '/v1/vms/nothing-1' }), 403, 'role_required')
  assert.match(byLabel.detail, /^the client certificate is for the consoles of other VMs; for VM nothing-1 /)
  host.storeIsOpen = false
  assertProblem(await host.ask('ops', { path: '/v1/vms/web-1' }), 503, 'starting_up')
})

test('a console client that waits for its VM does not see it once it is of others', async (t) => {
  const host = await stage(t)
  await createVm(host)
  const path = '/v1/vms/web-1'
  const label = (team: string): Promise<Answer> =>
    host.call({ method: 'PUT', path: `${path}/metadata`, body: { labels: { team }, protected: false } })
  await label('web')
  const { headers } = await host.ask('ops', { path })
  const waiting = host.ask('ops', {
    path,
    headers: { prefer: 'wait=30', 'if-none-match': headers.etag ?? '' },
  })
  await eventually(() => host.waits.size === 1)
  await label('db')
  assertProblem(await waiting, 403, 'role_required')
})

test('a console client gets no shell in a VM that is of others when it has woken for it', async (t) => {
  const host = await stage(t)
  await createVm(host)
  host.guests.guest('192.0.2.10')
  const observe = (state: ObservedState): void => {
    host.store.vms.recordProgress(WEB, { observed: { state, sinceMs: 1000 }, nowMs: 2000 })
  }
  const label = (team: string): Promise<Answer> =>
    host.call({
      ...{ method: 'PUT', path: `/v1/vms/${WEB}/metadata` },
      body: { labels: { team }, protected: false },
    })
  await label('web')
  observe('sleeping')
  const opening = consoleAs(host, 'ops', WEB, '?mode=ssh')
  await eventually(() => host.sessions.taken(WEB) === 1)
  await label('db')
  observe('running')
  assert.equal(await opening, 'role_required')
  await eventually(() => host.sessions.taken(WEB) === 0)
})

test('no client of the controller API is a node, even if one authority signs both', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const reader = await pki.issue({ commonName: 'reader-1' })
  assertProblem(await host.call({ path: '/healthz', client: clientWith(pki, reader) }), 403, 'forbidden')
})
