import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { connect as tlsConnect } from 'node:tls'
import { before, test } from 'node:test'
import { createAuthority, issueCertificate } from '../../src/daemon/setup/certificates.ts'
import { assertProblem, COMMON_NAME, makePki, send, startControllerHost } from './support/controller-host.ts'
import { renewServer } from './support/renew-server.ts'
import { clientWith, startCoordinationHost } from './support/coordination-host.ts'
import { eventually } from './support/eventually.ts'
import { oddCertificate } from './support/odd-certificate.ts'
import type { CertificatePair, LeafRequest } from '../../src/daemon/setup/certificates.ts'
import type { Pki } from './support/controller-host.ts'

const nodeLeaf: LeafRequest = { commonName: 'host-2', alternativeNames: [], usages: ['server', 'client'] }

let pki: Pki
let node: CertificatePair
before(async () => {
  pki = await makePki()
  node = await pki.issue(nodeLeaf)
})

const ROUTES = ['/healthz', '/readyz', '/docs/coordination.json', '/docs/errors', '/v1/migrations/move-web-1']
const REFUSED = /socket hang up|ECONNRESET|alert|disconnected/

test('a node is let in over TLS 1.3', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const { certificate: cert, key } = node
  const socket = tlsConnect({ port: host.port, host: '127.0.0.1', ca: pki.authority.certificate, cert, key })
  await once(socket, 'secureConnect')
  assert.equal(socket.getProtocol(), 'TLSv1.3')
  socket.destroy()
  assert.equal((await host.call({ path: '/healthz' })).status, 200)
})

test('with one authority for all, the controller is 403 here on every route, and a node is 403 at the controller API', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const controller = clientWith(pki, pki.controller)
  for (const path of [...ROUTES, '/nowhere', '/v1/migrations/%zz'])
    assertProblem(await host.call({ path, client: controller }), 403, 'forbidden')
  const controllerHost = await startControllerHost(t, pki)
  for (const path of ['/healthz', '/docs', '/v1/vms', '/nowhere'])
    assertProblem(await send(controllerHost.port, { path, client: clientWith(pki, node) }), 403, 'forbidden')
})

test('with an authority of nodes, neither listener lets the client of the other through its handshake', async (t) => {
  const nodes = await makePki()
  const host = await startCoordinationHost(t, nodes)
  const controllerHost = await startControllerHost(t, pki)
  const ca = [pki.authority.certificate, nodes.authority.certificate]
  const controller = clientWith(pki, pki.controller, { ca })
  const ofNodes = clientWith(nodes, await nodes.issue(nodeLeaf), { ca })
  assert.equal((await host.call({ path: '/healthz', client: ofNodes })).status, 200)
  await assert.rejects(host.call({ path: '/healthz', client: controller }), REFUSED)
  assert.equal((await send(controllerHost.port, { path: '/healthz', client: controller })).status, 200)
  await assert.rejects(send(controllerHost.port, { path: '/healthz', client: ofNodes }), REFUSED)
  // Not even with the controller's name.
  const disguised = clientWith(nodes, await nodes.issue({ ...nodeLeaf, commonName: COMMON_NAME }), { ca })
  await assert.rejects(send(controllerHost.port, { path: '/healthz', client: disguised }), REFUSED)
  assertProblem(await host.call({ path: '/healthz', client: disguised }), 403, 'forbidden')
  const reader = clientWith(nodes, await nodes.issue({ ...nodeLeaf, commonName: 'vmhost-metrics' }), { ca })
  assertProblem(await host.call({ path: '/healthz', client: reader }), 403, 'forbidden')
})

test('no certificate, one of another authority, of a server alone, or past its end gets no answer at all', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const stranger = await createAuthority('another authority', Date.now())
  const longAgo = Date.now() - 2000 * 86_400_000
  const cases: readonly (readonly [name: string, pair: CertificatePair | undefined, reason: string])[] = [
    ['none', undefined, 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE'],
    [
      'another authority',
      await issueCertificate(stranger, nodeLeaf, Date.now()),
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    ],
    ['a server', await pki.issue({ ...nodeLeaf, usages: ['server'] }), 'INVALID_PURPOSE'],
    ['expired', await issueCertificate(pki.authority, nodeLeaf, longAgo), 'CERT_HAS_EXPIRED'],
  ]
  for (const [name, pair, reason] of cases) {
    const client =
      pair === undefined
        ? { ca: pki.authority.certificate, agent: new Agent({ keepAlive: false }) }
        : clientWith(pki, pair)
    const linesBefore = host.logLines.length
    await assert.rejects(host.call({ path: '/healthz', client }), REFUSED, name)
    assert.ok(!host.logLines.slice(linesBefore).join('').includes('"status"'), name)
    await eventually(() =>
      host.logLines.slice(linesBefore).some((line) => JSON.parse(line).reason === reason),
    )
  }
})

test('TLS 1.2 is refused', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const client = clientWith(pki, node, { maxVersion: 'TLSv1.2' })
  await assert.rejects(host.call({ path: '/healthz', client }), /alert protocol version/)
})

test('a certificate without exactly one name of a node is 403', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const names = ['', ' host-2', 'host 2', 'host-2\nx', '-host', 'host/2', 'h'.repeat(65), 'hôst']
  const pairs = [
    ...(await Promise.all(names.map((commonName) => pki.issue({ ...nodeLeaf, commonName })))),
    await oddCertificate(pki.authority, { names: ['host-2', 'host-3'] }),
    await oddCertificate(pki.authority, { names: ['host-2', 'host-2'] }),
  ]
  for (const pair of pairs) {
    const path = '/v1/migrations/move-web-1'
    assertProblem(await host.call({ path, client: clientWith(pki, pair) }), 403, 'forbidden')
  }
})

test('each connection shows its certificate: no session is resumed', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const path = '/v1/migrations/move-web-1'
  const pairs: readonly (readonly [CertificatePair, number])[] = [
    [node, 200],
    [await pki.issue({ ...nodeLeaf, commonName: 'host-3' }), 404],
  ]
  for (const [pair, status] of pairs) {
    // The connection is not kept alive, but the agent would offer a session of the first connection in the second.
    const client = clientWith(pki, pair)
    const first = await host.call({ path, client })
    const second = await host.call({ path, client })
    assert.deepEqual([first.sessionReused, second.sessionReused], [false, false])
    assert.deepEqual([first.status, second.status], [status, status])
  }
})

test('replaced certificates are served from the next handshake on, without a restart', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const renewed = await renewServer(host, pki, async () => {
    assert.equal((await host.call({ path: '/healthz' })).status, 200)
  })
  const { certificate: cert, key } = node
  const socket = tlsConnect({ port: host.port, host: '127.0.0.1', ca: pki.authority.certificate, cert, key })
  await once(socket, 'secureConnect')
  const { serialNumber } = socket.getPeerCertificate()
  socket.destroy()
  assert.equal(serialNumber, new X509Certificate(renewed.certificate).serialNumber)
})

test('a replaced authority of nodes admits its own nodes, and no longer those of the old one', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const next = await makePki()
  const ca = [pki.authority.certificate, next.authority.certificate]
  const old = clientWith(pki, node, { ca })
  assert.equal((await host.call({ path: '/healthz', client: old })).status, 200)
  writeFileSync(host.files.ca, next.authority.certificate)
  writeFileSync(host.files.key, next.server.key)
  writeFileSync(host.files.certificate, next.server.certificate)
  await eventually(() => host.logLines.some((line) => line.includes('certificates replaced')))
  await assert.rejects(host.call({ path: '/healthz', client: old }), REFUSED)
  const after = clientWith(pki, await next.issue(nodeLeaf), { ca })
  assert.equal((await host.call({ path: '/healthz', client: after })).status, 200)
})

test('closing ends idle connections at once', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  await host.call({ path: '/healthz', client: clientWith(pki, node, { agent }) })
  await host.close(10_000)
  await assert.rejects(host.call({ path: '/healthz' }), { code: 'ECONNREFUSED' })
})
