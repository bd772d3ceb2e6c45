import assert from 'node:assert/strict'
import { once } from 'node:events'
import { renameSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { before, test } from 'node:test'
import { issueCertificate } from '../../src/daemon/setup/certificates.ts'
import { COMMON_NAME, makePki, send, startControllerHost } from './support/controller-host.ts'
import { renewServer } from './support/renew-server.ts'
import { clientWith } from './support/coordination-host.ts'
import { openConnection } from './support/open-connection.ts'
import { eventually } from './support/eventually.ts'
import { makeAuthority } from './support/intermediates.ts'
import { revoke } from './support/revocations.ts'
import type { TLSSocket } from 'node:tls'
import type { TestContext } from 'node:test'
import type { CertificatePair } from '../../src/daemon/setup/certificates.ts'
import type { Answer, ControllerHost, Pki } from './support/controller-host.ts'

const REFUSED = /socket hang up|ECONNRESET|alert|disconnected/

/** An authority at the root, two below it, and a client's certificate of each of these. */
let pki: Pki
let root: CertificatePair
let intermediate: CertificatePair
let client: CertificatePair
let otherIntermediate: CertificatePair
let otherClient: CertificatePair
before(async () => {
  pki = await makePki()
  root = await makeAuthority('root')
  const issue = (authority: CertificatePair): Promise<CertificatePair> =>
    issueCertificate(
      authority,
      { commonName: COMMON_NAME, alternativeNames: [], usages: ['client'] },
      Date.now(),
    )
  intermediate = await makeAuthority('intermediate', root)
  client = await issue(intermediate)
  otherIntermediate = await makeAuthority('other intermediate', root)
  otherClient = await issue(otherIntermediate)
})

/** Returns a client that sends the certificates of these authorities with its own. */
const sending = (pair: CertificatePair, ...authorities: readonly CertificatePair[]): CertificatePair => ({
  key: pair.key,
  certificate: [pair, ...authorities].map(({ certificate }) => certificate).join(''),
})

const healthOf = (
  { port }: ControllerHost,
  pair: CertificatePair,
  agent = new Agent({ keepAlive: false }),
): Promise<Answer> => send(port, { path: '/healthz', client: clientWith(pki, pair, { agent }) })

/** Starts a host that trusts these authorities besides its own. Nothing of the root is revoked at first. */
async function stage(
  t: TestContext,
  trusted: readonly CertificatePair[],
): Promise<ControllerHost & { revokeIntermediate: () => Promise<void> }> {
  const authority = sending(pki.authority, ...trusted)
  const host = await startControllerHost(t, { ...pki, authority }, { revocations: await revoke(root, []) })
  const path = host.files.revocations ?? assert.fail('no list')
  const revokeIntermediate = async (): Promise<void> => {
    writeFileSync(`${path}.new`, await revoke(root, [intermediate]))
    renameSync(`${path}.new`, path)
    await eventually(() => host.logLines.some((line) => line.includes('revocation list replaced')))
  }
  return Object.assign(host, { revokeIntermediate })
}

const connected = (t: TestContext, { port }: ControllerHost, pair: CertificatePair): Promise<TLSSocket> =>
  openConnection(t, { pki, port, pair })

/** Each way in which a host comes to know the intermediate authority. */
const ways = [
  { name: 'that the client sends', trusted: () => [root], isSent: true },
  { name: 'that is in ca_file', trusted: () => [root, intermediate, otherIntermediate], isSent: false },
]
for (const { name, trusted, isSent } of ways) {
  const shown = (pair: CertificatePair, authority: CertificatePair): CertificatePair =>
    isSent ? sending(pair, authority) : pair

  test(`clients below a revoked authority ${name} get no answer, and their connections end`, async (t) => {
    const host = await stage(t, trusted())
    const [lost, kept] = [shown(client, intermediate), shown(otherClient, otherIntermediate)]
    const agent = new Agent({ keepAlive: false })
    assert.equal((await healthOf(host, lost, agent)).status, 200)
    assert.equal((await healthOf(host, kept)).status, 200)
    const [open, other] = [await connected(t, host, lost), await connected(t, host, kept)]
    const ended = once(open, 'close')
    await host.revokeIntermediate()
    await assert.rejects(healthOf(host, lost), REFUSED)
    await assert.rejects(healthOf(host, lost, agent), REFUSED)
    assert.equal((await healthOf(host, kept)).status, 200)
    await ended
    assert.equal(other.destroyed, false)
  })
}

test('certificates that a client sends besides its own cannot hide its authority', async (t) => {
  const host = await stage(t, [root])
  const others = await Promise.all(Array.from({ length: 9 }, async () => makeAuthority('unknown')))
  const first = others[0] ?? assert.fail('none')
  const lost = sending(client, first, first, ...others, intermediate)
  assert.equal((await healthOf(host, lost)).status, 200)
  await host.revokeIntermediate()
  await assert.rejects(healthOf(host, lost), REFUSED)
})

test('a renewed server certificate ends no connection of a client below an intermediate authority', async (t) => {
  const host = await stage(t, [root])
  const shown = sending(client, intermediate)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  // A second connection of this agent resumes the session of the first one, if the host lets it.
  await send(host.port, {
    path: '/healthz',
    client: clientWith(pki, shown, { agent }),
    headers: { connection: 'close' },
  })
  await healthOf(host, shown, agent)
  await connected(t, host, shown)
  await renewServer(host, pki, async () => {})
  assert.deepEqual(
    host.logLines.filter((line) => line.includes('authority_removed')),
    [],
  )
})

test('a connection ends with its authority, whatever other certificates the client has sent', async (t) => {
  const host = await stage(t, [root])
  const open = await connected(t, host, sending(client, intermediate, pki.authority))
  const ended = once(open, 'close')
  writeFileSync(host.files.ca, pki.authority.certificate)
  await eventually(() => host.logLines.some((line) => line.includes('certificates replaced')))
  assert.equal(host.logLines.filter((line) => line.includes('authority_removed')).length, 1)
  await ended
})
