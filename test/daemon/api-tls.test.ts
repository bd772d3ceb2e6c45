import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { connect } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { valueIn } from '../metrics-text.ts'
import { createAuthority, issueCertificate } from '../../src/daemon/setup/certificates.ts'
import { oddCertificate } from './support/odd-certificate.ts'
import {
  assertProblem,
  COMMON_NAME,
  createBody,
  makePki,
  send,
  startControllerHost,
} from './support/controller-host.ts'
import { renewServer } from './support/renew-server.ts'
import { eventually } from './support/eventually.ts'
import type { RequestOptions } from 'node:https'
import type { CertificatePair } from '../../src/daemon/setup/certificates.ts'
import type { Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const as = (pair: CertificatePair, more: RequestOptions = {}): RequestOptions => ({
  ca: pki.authority.certificate,
  cert: pair.certificate,
  key: pair.key,
  agent: new Agent({ keepAlive: false }),
  ...more,
})

test('the configured controller is let in over TLS 1.3', async (t) => {
  const host = await startControllerHost(t, pki)
  const { certificate, key } = pki.controller
  const socket = tlsConnect({
    port: host.port,
    host: '127.0.0.1',
    ca: pki.authority.certificate,
    cert: certificate,
    key,
  })
  await once(socket, 'secureConnect')
  assert.equal(socket.getProtocol(), 'TLSv1.3')
  socket.destroy()
  assert.equal((await send(host.port, { path: '/healthz', client: as(pki.controller) })).status, 200)
})

test('without a client certificate the handshake fails, and the log says why', async (t) => {
  const host = await startControllerHost(t, pki)
  const client = { ca: pki.authority.certificate, agent: new Agent() }
  await assert.rejects(send(host.port, { path: '/healthz', client }), {
    code: 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
  })
  await eventually(() => host.logLines.some((line) => line.includes('refused in their TLS handshake')))
})

test('a certificate of another authority, of a server, or past its end gets no answer at all', async (t) => {
  const host = await startControllerHost(t, pki)
  const stranger = await createAuthority('another authority', Date.now())
  const leaf = { commonName: COMMON_NAME, alternativeNames: [], usages: ['client'] } as const
  const longAgo = Date.now() - 2000 * 86_400_000
  const cases: readonly (readonly [name: string, pair: CertificatePair, reason: string])[] = [
    [
      'another authority',
      await issueCertificate(stranger, leaf, Date.now()),
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    ],
    ['a server', await pki.issue({ usages: ['server'] }), 'INVALID_PURPOSE'],
    ['expired', await issueCertificate(pki.authority, leaf, longAgo), 'CERT_HAS_EXPIRED'],
  ]
  for (const [name, pair, reason] of cases) {
    const linesBefore = host.logLines.length
    await assert.rejects(
      send(host.port, { path: '/healthz', client: as(pair) }),
      /socket hang up|ECONNRESET|alert/,
      name,
    )
    assert.ok(!host.logLines.slice(linesBefore).join('').includes('"status"'), name)
    await eventually(() =>
      host.logLines.slice(linesBefore).some((line) => JSON.parse(line).reason === reason),
    )
  }
})

test('TLS 1.2 is refused', async (t) => {
  const host = await startControllerHost(t, pki)
  const client = as(pki.controller, { maxVersion: 'TLSv1.2' })
  await assert.rejects(send(host.port, { path: '/healthz', client }), /alert protocol version/)
})

test('a valid certificate with another common name is 403 on every route, even an unknown one', async (t) => {
  const host = await startControllerHost(t, pki)
  const names = [
    'vmhost-controller2',
    'VMHOST-CONTROLLER',
    ' vmhost-controller',
    'vmhost-controller\nx',
    'node',
  ]
  for (const commonName of names) {
    const client = as(await pki.issue({ commonName }))
    assertProblem(await send(host.port, { path: '/healthz', client }), 403, 'forbidden')
  }
  const client = as(await pki.issue({ commonName: 'node' }))
  for (const path of ['/readyz', '/docs', '/docs/swagger.json', '/v1/vms', '/nowhere', '/v1/vms/%zz']) {
    assertProblem(await send(host.port, { path, client }), 403, 'forbidden')
  }
  const put = { method: 'PUT', path: '/v1/vms/web-1', body: createBody(), client }
  assertProblem(await send(host.port, put), 403, 'forbidden')
  assert.equal(host.store.vms.ids().length, 0)
})

test('a certificate with two common names is 403, even if one is the right one', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const names of [
    [COMMON_NAME, 'other'],
    ['other', COMMON_NAME],
    [COMMON_NAME, COMMON_NAME],
  ]) {
    const client = as(await oddCertificate(pki.authority, { names }))
    assertProblem(await send(host.port, { path: '/healthz', client }), 403, 'forbidden')
  }
})

test('each connection shows its certificate: no session is resumed', async (t) => {
  const host = await startControllerHost(t, pki)
  const pairs: readonly (readonly [CertificatePair, number])[] = [
    [pki.controller, 200],
    [await pki.issue({ commonName: 'other' }), 403],
  ]
  for (const [pair, status] of pairs) {
    // The connection is not kept alive, but the agent would offer a session of the first connection in the second.
    const client = as(pair, { agent: new Agent({ keepAlive: false }) })
    const first = await send(host.port, { path: '/healthz', client })
    const second = await send(host.port, { path: '/healthz', client })
    assert.deepEqual([first.sessionReused, second.sessionReused], [false, false])
    assert.deepEqual([first.status, second.status], [status, status])
  }
})

test('replaced certificate files are served from the next handshake on, and kept connections continue', async (t) => {
  const host = await startControllerHost(t, pki)
  const kept = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => kept.destroy())
  const onKept = as(pki.controller, { agent: kept })
  await send(host.port, { path: '/healthz', client: onKept })
  const [socket] = Object.values(kept.freeSockets)[0] ?? []

  const renewed = await renewServer(host, pki, async () => {
    assert.equal((await send(host.port, { path: '/healthz', client: as(pki.controller) })).status, 200)
  })
  assert.equal(await servedSerial(host.port), new X509Certificate(renewed.certificate).serialNumber)
  await send(host.port, { path: '/healthz', client: onKept })
  assert.equal(Object.values(kept.freeSockets)[0]?.[0], socket)
})

test('files that do not fit are a fault of the host until they do, and not only a line of the log', async (t) => {
  const host = await startControllerHost(t, pki)
  const faults = async (): Promise<unknown> => {
    const { json } = await host.call({ path: '/v1/sync' })
    return json.host.faults
  }
  const scraped = async (): Promise<number | undefined> => {
    host.clock.advance(limits.metricsAgeMsMax)
    const { text } = await host.call({ path: '/metrics' })
    return valueIn(text, 'vmhostd_host_fault', { code: 'certificates_unusable' })
  }
  assert.deepEqual([await faults(), await scraped()], [undefined, 0])
  await renewServer(host, pki, async () => {
    assert.deepEqual(await faults(), [
      {
        code: 'certificates_unusable',
        detail:
          'the certificate files of the listener controller are refused, and it does not start with them: [path] is not the key of [path]',
      },
    ])
    assert.equal(await scraped(), 1)
  })
  assert.deepEqual([await faults(), await scraped()], [undefined, 0])
})

test('the authority is replaced under an open long poll, which ends; only the new one admits clients', async (t) => {
  const host = await startControllerHost(t, pki)
  const path = '/v1/vms/web-1'
  await host.call({ method: 'PUT', path, body: createBody() })
  const kept = new Agent({ keepAlive: true, maxSockets: 1 })
  const resuming = new Agent({ keepAlive: false })
  t.after(() => kept.destroy())
  const onKept = as(pki.controller, { agent: kept })
  const { headers } = await send(host.port, { path, client: onKept })
  const next = await makePki()
  const ca = [pki.authority.certificate, next.authority.certificate]
  const again = { path, client: as(pki.controller, { ca, agent: resuming }) }
  assert.equal((await send(host.port, again)).status, 200)
  const wait = { 'if-none-match': headers.etag ?? '', prefer: 'wait=60' }
  const poll = send(host.port, { path, headers: wait, client: onKept })
  const ended = assert.rejects(poll, /socket hang up|ECONNRESET/)
  await eventually(() => host.waits.size === 1)

  writeFileSync(host.files.ca, next.authority.certificate)
  writeFileSync(host.files.key, next.server.key)
  writeFileSync(host.files.certificate, next.server.certificate)
  await eventually(() => host.logLines.some((line) => line.includes('certificates replaced')))
  // The old controller is refused with its certificate, and with a session that it opened with that one.
  await assert.rejects(send(host.port, { path, client: as(pki.controller, { ca }) }))
  await assert.rejects(send(host.port, again))
  await ended
  const body = { state: 'stopped' }
  const change = { method: 'PUT', path: `${path}/power`, body, client: as(next.controller, { ca }) }
  assert.equal((await send(host.port, change)).status, 202)
  await assert.rejects(send(host.port, { path, client: onKept }))
})

test('a connection that was open before its authority was removed is not let in afterwards', async (t) => {
  const host = await startControllerHost(t, pki)
  const early = connect(host.port, '127.0.0.1')
  t.after(() => early.destroy())
  early.on('error', () => {})
  await once(early, 'connect')
  // The server takes connections in order.
  assert.equal((await send(host.port, { path: '/healthz', client: as(pki.controller) })).status, 200)
  const next = await makePki()
  writeFileSync(host.files.ca, next.authority.certificate)
  writeFileSync(host.files.key, next.server.key)
  writeFileSync(host.files.certificate, next.server.certificate)
  await eventually(() => host.logLines.some((line) => line.includes('certificates replaced')))
  const { certificate: cert, key } = pki.controller
  const socket = tlsConnect({ socket: early, cert, key, rejectUnauthorized: false })
  socket.on('error', () => {})
  let answer = ''
  socket.on('data', (data) => (answer += String(data)))
  socket.write('GET /healthz HTTP/1.1\r\nhost: host-1\r\nconnection: close\r\n\r\n')
  await eventually(() => early.destroyed || socket.destroyed || answer !== '')
  assert.equal(answer, '')
})

async function servedSerial(port: number): Promise<string> {
  const { certificate, key } = pki.controller
  const socket = tlsConnect({
    port,
    host: '127.0.0.1',
    ca: pki.authority.certificate,
    cert: certificate,
    key,
  })
  await once(socket, 'secureConnect')
  const { serialNumber } = socket.getPeerCertificate()
  socket.destroy()
  return serialNumber
}

test('closing ends idle connections at once and cuts off a request that does not finish', async (t) => {
  const host = await startControllerHost(t, pki)
  await host.call({ path: '/healthz' })
  const { certificate, key } = pki.controller
  const slow = tlsConnect({
    port: host.port,
    host: '127.0.0.1',
    ca: pki.authority.certificate,
    cert: certificate,
    key,
  })
  slow.on('error', () => {})
  slow.write(
    'PUT /v1/vms/web-1 HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{',
  )
  await once(slow, 'session')
  const gone = once(slow, 'close')
  await host.close(50)
  await gone
  await assert.rejects(host.call({ path: '/healthz' }), { code: 'ECONNREFUSED' })
})
