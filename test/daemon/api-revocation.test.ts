import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { renameSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { before, test } from 'node:test'
import { createAuthority, issueCertificate } from '../../src/daemon/setup/certificates.ts'
import { COMMON_NAME, makePki, send, startControllerHost } from './support/controller-host.ts'
import { createVm, startConsole, watch } from './support/console-viewer.ts'
import { clientWith, startCoordinationHost } from './support/coordination-host.ts'
import { valueIn } from '../metrics-text.ts'
import { eventually } from './support/eventually.ts'
import { labelled } from './support/labelled.ts'
import { openConnection } from './support/open-connection.ts'
import { oddCertificate } from './support/odd-certificate.ts'
import { revoke } from './support/revocations.ts'
import type { TLSSocket } from 'node:tls'
import type { TestContext } from 'node:test'
import type { CertificatePair } from '../../src/daemon/setup/certificates.ts'
import type { ControllerHost, Pki } from './support/controller-host.ts'

const REFUSED = /socket hang up|ECONNRESET|alert|disconnected/

let pki: Pki
let stolen: CertificatePair
before(async () => {
  pki = await makePki()
  stolen = await pki.issue({})
})

const healthOf = (host: { readonly port: number }, pair: CertificatePair, agent = new Agent()) =>
  send(host.port, { path: '/healthz', client: clientWith(pki, pair, { agent }) })

type Stage = ControllerHost & { readonly publish: (list: string) => void }

/** Starts a host with an empty revocation list. */
async function stage(t: TestContext): Promise<Stage> {
  const host = await startControllerHost(t, pki, { revocations: await revoke(pki.authority, []) })
  const path = host.files.revocations ?? assert.fail('no list')
  const publish = (list: string): void => {
    writeFileSync(`${path}.new`, list)
    renameSync(`${path}.new`, path)
  }
  return Object.assign(host, { publish })
}

const logged = (host: Pick<ControllerHost, 'logLines'>, words: string): Promise<void> =>
  eventually(() => host.logLines.some((line) => line.includes(words)))

/** Waits for events of a kind. The first look after a change notes it. */
async function eventsOf(host: ControllerHost, kind: string) {
  await eventually(() =>
    host.store.events.list({ after: 0, limit: 9 }).some(({ body }) => body.kind === kind),
  )
  const { text } = await host.call({ path: '/v1/events?after=0&follow=false' })
  const all = [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data))
  return all.filter((event) => event.kind === kind)
}

const connected = (t: TestContext, port: number, pair: CertificatePair): Promise<TLSSocket> =>
  openConnection(t, { pki, port, pair })

test('a certificate that is revoked gets no answer from then on, and others of its name do', async (t) => {
  const host = await stage(t)
  assert.equal((await healthOf(host, stolen)).status, 200)
  host.publish(await revoke(pki.authority, [stolen]))
  await logged(host, 'revocation list replaced')
  await assert.rejects(healthOf(host, stolen), REFUSED)
  await logged(host, 'CERT_REVOKED')
  const line = host.logLines.find((text) => text.includes('CERT_REVOKED')) ?? assert.fail('no line')
  const { certificate_name, certificate_serial } = JSON.parse(line)
  const { serialNumber } = new X509Certificate(stolen.certificate)
  assert.deepEqual([certificate_name, certificate_serial], [COMMON_NAME, serialNumber])
  assert.equal((await healthOf(host, pki.controller)).status, 200)
  const { json } = await host.call({ path: '/v1/sync' })
  assert.equal(json.host.revocation_list.revoked, 1)
  const { text } = await host.call({ path: '/metrics' })
  const due = valueIn(text, 'vmhostd_revocation_list_next_update_timestamp_seconds', {
    listener: 'controller',
  })
  assert.equal(due, Date.parse(json.host.revocation_list.next_update) / 1000)
  const [event] = await eventsOf(host, 'revocation_list_replaced')
  const { sequence: _sequence, at: _at, ...members } = event
  assert.deepEqual(members, {
    kind: 'revocation_list_replaced',
    listener: 'controller',
    issuer: 'CN=test authority',
    revoked: 1,
    next_update: json.host.revocation_list.next_update,
  })
})

test('a client is neither listed nor warned of once its certificate is revoked', async (t) => {
  const host = await stage(t)
  const leaf = { commonName: COMMON_NAME, alternativeNames: [], usages: ['client'] } as const
  // It ends within the time of warnings, and before the certificates of others.
  const soonMs = Date.now() - 820 * 86_400_000
  const [lost, gone] = [
    await issueCertificate(pki.authority, leaf, soonMs),
    await issueCertificate(pki.authority, leaf, soonMs),
  ]
  const serials = [lost, gone].map(({ certificate }) => new X509Certificate(certificate).serialNumber)
  const listed = async () => {
    const { clients, certificates } = (await host.call({ path: '/v1/sync' })).json.host
    const shown = new Set<string>(clients.map(({ serial }: { serial: string }) => serial))
    const ends = certificates.find(({ name }: { name: string }) => name === 'controller').not_after
    return [...serials.map((serial) => shown.has(serial)), Date.parse(ends) < Date.now() + 30 * 86_400_000]
  }
  await connected(t, host.port, lost)
  assert.equal((await healthOf(host, gone)).status, 200)
  assert.deepEqual(await listed(), [true, true, true])
  host.publish(await revoke(pki.authority, [lost, gone]))
  await logged(host, 'connections ended')
  assert.deepEqual(await listed(), [false, false, false])
  host.publish(await revoke(pki.authority, [], { age: 29 }))
  await eventually(() => host.logLines.filter((line) => line.includes('revocation list replaced')).length > 1)
  assert.deepEqual(await listed(), [false, false, false], 'it is forgotten until it connects again')
  assert.equal((await healthOf(host, gone)).status, 200)
  assert.deepEqual(await listed(), [false, true, true])
})

test('its open connections and consoles end, and no session that it had brings it back', async (t) => {
  const host = await stage(t)
  await createVm(host)
  await startConsole(host)
  const viewer = await watch(t, host, { ...pki, controller: stolen })
  const idle = await connected(t, host.port, stolen)
  const kept = await connected(t, host.port, pki.controller)
  const agent = new Agent({ keepAlive: false })
  assert.equal((await healthOf(host, stolen, agent)).status, 200)
  host.publish(await revoke(pki.authority, [stolen]))
  await Promise.all([once(idle, 'close'), once(viewer.socket, 'close')])
  await assert.rejects(healthOf(host, stolen, agent), REFUSED)
  assert.equal(kept.destroyed, false)
  const line = host.logLines.find((text) => text.includes('no longer trusted')) ?? assert.fail('no line')
  const { reason, certificate_serials } = JSON.parse(line)
  const serial = new X509Certificate(stolen.certificate).serialNumber
  assert.deepEqual([reason, certificate_serials], ['certificate_revoked', [serial]])
})

test('a serial number has one form: in the trail, in sync and in the log', async (t) => {
  const host = await stage(t)
  const pair = await oddCertificate(pki.authority, { names: [COMMON_NAME], serialNumber: '0abc' })
  const shown = '0ABC'
  const client = clientWith(pki, pair)
  await send(host.port, { method: 'DELETE', path: '/v1/vms/web-1', client })
  const { json } = await send(host.port, { path: '/v1/sync', client })
  assert.ok(json.host.clients.some(({ serial }: { serial: string }) => serial === shown))
  const idle = await connected(t, host.port, pair)
  host.publish(await revoke(pki.authority, [pair]))
  await once(idle, 'close')
  const lines = host.logLines.map((line) => JSON.parse(line))
  const audit = lines.find(({ level }) => level === 'audit')
  const ended = lines.find(({ reason }) => reason === 'certificate_revoked')
  assert.deepEqual([audit.certificate_serial, ended.certificate_serials], [shown, [shown]])
})

test('a broken list changes nothing, and an expired one still revokes and lets others in', async (t) => {
  const host = await stage(t)
  host.publish(await revoke(pki.authority, [stolen]))
  await logged(host, 'revocation list replaced')
  host.publish('-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n')
  await logged(host, 'new revocation list refused')
  await assert.rejects(healthOf(host, stolen), REFUSED)
  host.publish(await revoke(pki.authority, [stolen], { days: -1 }))
  await logged(host, 'revocation list has expired')
  await assert.rejects(healthOf(host, stolen), REFUSED)
  assert.equal((await healthOf(host, pki.controller)).status, 200)
})

test('the list of an authority counts under each label of its certificate that TLS reads', async (t) => {
  const revocations = await revoke(pki.authority, [stolen])
  for (const label of ['X509 CERTIFICATE', 'TRUSTED CERTIFICATE'] as const) {
    const authority = { ...pki.authority, certificate: labelled(pki.authority.certificate, label) }
    const host = await startControllerHost(t, { ...pki, authority }, { revocations })
    await assert.rejects(healthOf(host, stolen), REFUSED)
    assert.equal((await healthOf(host, pki.controller)).status, 200)
  }
})

test('a start with a broken list fails: what was revoked must not be let in', async (t) => {
  await assert.rejects(
    startControllerHost(t, pki, { revocations: 'nothing' }),
    /revoked\.pem cannot be used as a revocation list/,
  )
})

test('the revoked certificate of a node is refused on the port for other hosts', async (t) => {
  const node = { commonName: 'host-2', usages: ['server', 'client'] } as const
  const [kept, lost] = [await pki.issue(node), await pki.issue(node)]
  const host = await startCoordinationHost(t, pki, undefined, {
    revocations: await revoke(pki.authority, [lost]),
  })
  const path = '/healthz'
  assert.equal((await host.call({ path, client: clientWith(pki, kept) })).status, 200)
  await assert.rejects(host.call({ path, client: clientWith(pki, lost) }), REFUSED)
  const [list] = host.lists()?.lists ?? []
  assert.deepEqual([list?.issuer, list?.revoked], ['CN=test authority', 1])
})

test('a revoked certificate stays out while its authority is replaced, and the host starts at each step', async (t) => {
  const host = await stage(t)
  const path = host.files.revocations ?? assert.fail('no list')
  const next = await createAuthority('next authority', Date.now())
  const leaf = { commonName: COMMON_NAME, alternativeNames: [], usages: ['client'] } as const
  const renewed = await issueCertificate(next, leaf, Date.now())
  const [ofOld, ofNext] = [await revoke(pki.authority, [stolen]), await revoke(next, [])]
  const ca = (...authorities: readonly CertificatePair[]) => ({
    file: host.files.ca,
    text: authorities.map(({ certificate }) => certificate).join(''),
  })
  const steps = [
    { ...ca(pki.authority, next), log: 'certificates replaced', first: 200, second: 200 },
    { file: path, text: ofOld + ofNext, log: 'revocation list replaced', first: 200, second: 200 },
    { ...ca(next), log: 'certificates replaced', first: 0, second: 200 },
    { file: path, text: ofNext, log: 'revocation list replaced', first: 0, second: 200 },
  ]
  host.publish(ofOld)
  await logged(host, 'revocation list replaced')
  for (const { file, text, log, first, second } of steps) {
    const seen = host.logLines.length
    writeFileSync(`${file}.new`, text)
    renameSync(`${file}.new`, file)
    await eventually(() => host.logLines.slice(seen).some((line) => line.includes(log)))
    for (const again of [false, true]) {
      if (again) {
        await host.close(0)
        await host.reopen()
      }
      await assert.rejects(healthOf(host, stolen), REFUSED)
      const ofFirst = await healthOf(host, pki.controller).catch(() => ({ status: 0 }))
      assert.deepEqual([ofFirst.status, (await healthOf(host, renewed)).status], [first, second])
    }
  }
})

test('an authority is replaced without a gap: both are trusted, then the old one is refused and its connections end', async (t) => {
  const host = await startControllerHost(t, pki)
  const next = await createAuthority('next authority', Date.now())
  const leaf = { commonName: COMMON_NAME, alternativeNames: [], usages: ['client'] } as const
  const renewed = await issueCertificate(next, leaf, Date.now())
  const trust = async (...authorities: readonly CertificatePair[]): Promise<void> => {
    const seen = host.logLines.length
    writeFileSync(host.files.ca, authorities.map(({ certificate }) => certificate).join(''))
    await eventually(() => host.logLines.slice(seen).some((line) => line.includes('certificates replaced')))
  }
  await assert.rejects(healthOf(host, renewed), REFUSED)
  await trust(pki.authority, next)
  const agent = new Agent({ keepAlive: false })
  assert.equal((await healthOf(host, pki.controller, agent)).status, 200)
  assert.equal((await healthOf(host, renewed)).status, 200)
  const [ofOld, ofNew] = [
    await connected(t, host.port, pki.controller),
    await connected(t, host.port, renewed),
  ]
  const ended = once(ofOld, 'close')
  await trust(next)
  await ended
  await assert.rejects(healthOf(host, pki.controller, agent), REFUSED)
  assert.equal((await healthOf(host, renewed)).status, 200)
  assert.equal(ofNew.destroyed, false)
})
