import assert from 'node:assert/strict'
import { request as httpsRequest } from 'node:https'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { HostFault } from '../../src/core/errors.ts'
import { assertProblem, exchange, makePki } from './support/controller-host.ts'
import { clientWith, manifest, startCoordinationHost } from './support/coordination-host.ts'
import { eventually } from './support/eventually.ts'
import type { CertificatePair } from '../../src/daemon/setup/certificates.ts'
import type { CoordinationHost } from './support/coordination-host.ts'
import type { Json, Pki } from './support/controller-host.ts'

let pki: Pki
let node: CertificatePair
before(async () => {
  pki = await makePki()
  node = await pki.issue({ commonName: 'host-2' })
})

/** Bound of a request that would otherwise wait for ever. */
const ANSWER_MS = 5000

const path = `/v1/migrations/${manifest.migrationId}`

/** Returns the access log's line of a request. */
async function lineOf(host: CoordinationHost, requestId: string): Promise<Json> {
  const found = (): string | undefined =>
    host.logLines.find((line) => line.includes(requestId) && line.includes('"message":"request"'))
  await eventually(() => found() !== undefined)
  return JSON.parse(found() ?? '')
}

test('a node reads the manifest of its offer', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const answer = await host.call({ path })
  assert.equal(answer.status, 200)
  assert.deepEqual(answer.json, {
    migration_id: 'move-web-1',
    vm_id: 'web-1',
    stage: 'offered',
    mode: 'live',
    power: 'running',
    monitor: { program: 'qemu-system-x86_64', version: '10.0.2', accelerator: 'tcg', form: 'mapped' },
    processor: { vendor: 'emulated', features: [] },
    compute: { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 0 },
    disk: { size_mib: 2048, iops_max: 500 },
    network: { mac_address: '02:00:5e:10:00:01', ipv4_address: '192.0.2.10' },
    expires_at: '2030-01-01T00:00:00.000Z',
    vm: {
      desired: {
        power: 'running',
        compute: { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 0 },
        disk: { size_mib: 2048, iops_max: 500 },
        image: { rootfs: { sha256: 'a'.repeat(64) }, kernel: { sha256: 'b'.repeat(64) }, rebuild: 3 },
        network: { mac_address: '02:00:5e:10:00:01', ipv4_address: '192.0.2.10' },
        readiness: { protocol: 'http', port: 80, path: '/healthz' },
        restart_policy: 'on_failure',
        delete_after_seconds: 60,
        delete_on_exit: true,
        instance: 2,
      },
      labels: { env: 'prod' },
      protected: true,
      created_at: '2029-01-01T00:00:00.000Z',
      request: '{}',
      user_data: '#cloud-config',
      ssh_authorized_keys: ['ssh-ed25519 AAAA ops'],
      ssh_host_key: 'SHA256:uNiVztksCsDhcc0u9e8BrBYn1tYcoFTCqfEVcC1WbC0',
      monitor: 'qemu',
      daemon_ssh_key: 'ssh-ed25519 AAAA vmhostd@host-1',
      last_traffic_at: '2029-01-02T00:00:00.000Z',
      keep_awake_until: '2029-01-03T00:00:00.000Z',
      exit_streak: 1,
    },
  })
})

test('an offer to another node is answered like one that does not exist', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const headers = { 'x-request-id': 'probe' }
  host.offer.node = 'host-3'
  const others = await host.call({ path, headers })
  assertProblem(others, 404, 'not_found')
  host.offer.node = 'HOST-2'
  const otherCase = await host.call({ path, headers })
  const missing = await host.call({ path: '/v1/migrations/move-web-2', headers })
  assert.equal(otherCase.text, others.text)
  assert.equal(missing.text, others.text.replace('move-web-1', 'move-web-2'))
  const constant = ({ date: _date, ...rest }: Json): Json => rest
  assert.deepEqual(constant(missing.headers), constant(others.headers))
})

test('until the store is open a migration is 503, and health says that the daemon is alive', async (t) => {
  const host = await startCoordinationHost(t, pki)
  host.storeIsOpen = false
  host.waitingFor = ['console adoption']
  assert.equal(assertProblem(await host.call({ path }), 503, 'starting_up').retryable, true)
  assert.deepEqual((await host.call({ path: '/healthz' })).json, { status: 'alive', version: '1.2.3' })
  assertProblem(await host.call({ path: '/readyz' }), 503, 'starting_up')
  host.waitingFor = []
  assert.deepEqual((await host.call({ path: '/readyz' })).json, { status: 'ready' })
})

test('a body has at most the size that the requests of nodes need', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const body = JSON.stringify({ padding: 'x'.repeat(limits.coordinationBodyBytesMax) })
  const refused = await host.call({ method: 'POST', path: `${path}/handover`, body })
  assert.match(assertProblem(refused, 413, 'body_too_large').detail, /at most 4 KiB/)
})

test('an unknown route, a wrong method and a malformed request are refused before a body is read', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const unknown = assertProblem(await host.call({ path: '/v1/vms' }), 404, 'not_found')
  assert.match(unknown.detail, /see \/docs\/coordination\.json/)
  const body = 'x'.repeat(64 * 1024)
  const wrong = await host.call({ method: 'POST', path, body })
  assertProblem(wrong, 405, 'method_not_allowed')
  assert.equal(wrong.headers.allow, 'GET, HEAD')
  for (const malformed of ['/v1/migrations/Web', `/v1/migrations/${'a'.repeat(64)}`, `${path}?wait=1`])
    assertProblem(await host.call({ path: malformed }), 400, 'invalid_request')
  assertProblem(await host.call({ path: '/v1/migrations/%zz' }), 400, 'invalid_request')
  const headers = { 'x-long': 'a'.repeat(limits.headerBytesMax) }
  assertProblem(await host.call({ path, headers }), 431, 'headers_too_large')
})

test('no request upgrades the connection: a console is an unknown route', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
  const headers = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  }
  const sent = httpsRequest({
    host: '127.0.0.1',
    port: host.port,
    path: '/v1/vms/web-1/console',
    headers,
    timeout: ANSWER_MS,
    ...clientWith(pki, node),
  })
  sent
    .on('timeout', () => sent.destroy(new Error('no answer')))
    .on('response', (response) => resolve(response.resume().statusCode))
    .on('upgrade', () => resolve(101))
    .on('error', reject)
    .end()
  assert.equal(await promise, 404)
})

test('the log has the node and the migration of a request, and which listener it came to', async (t) => {
  const host = await startCoordinationHost(t, pki)
  await host.call({ path, headers: { 'x-request-id': 'req-of-host-2' } })
  const { listener, node: name, migration_id, route, level } = await lineOf(host, 'req-of-host-2')
  assert.deepEqual(
    { listener, name, migration_id, route, level },
    {
      listener: 'coordination',
      name: 'host-2',
      migration_id: 'move-web-1',
      route: '/v1/migrations/:id',
      level: 'debug',
    },
  )
  const headers = { 'x-request-id': 'req-of-stranger' }
  await host.call({ path, headers, client: clientWith(pki, pki.controller) })
  assert.equal((await lineOf(host, 'req-of-stranger')).code, 'forbidden')
})

test('a fault of the host is answered without its path, and a bug without its reason', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const call = { path, client: clientWith(pki, node) }
  host.offer.read = () => {
    throw new HostFault('disk_missing', 'reading /var/lib/vmhostd/pool/disks/web-1/disk.img')
  }
  // No route of this API lists a fault yet.
  const fault = await exchange(host.port, call)
  assertProblem(fault, 503, 'disk_missing')
  assert.doesNotMatch(fault.text, /var\/lib/)
  assert.ok(host.logLines.some((line) => line.includes('/var/lib/vmhostd/pool/disks/web-1/disk.img')))
  host.offer.read = () => {
    throw new TypeError('CANARY')
  }
  const bug = await exchange(host.port, call)
  assertProblem(bug, 500, 'internal')
  assert.doesNotMatch(bug.text, /CANARY/)
  assert.ok(host.logLines.some((line) => line.includes('CANARY')))
})
