import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { breakStore } from '../../test/broken-store.ts'
import { manifest } from '../../test/daemon/support/coordination-host.ts'
import { makeAuthority } from '../../test/daemon/support/intermediates.ts'
import { revoke } from '../../test/daemon/support/revocations.ts'
import { ANYWHERE } from '../../test/fakes/outbound.ts'
import { manifestToWire } from '../api/wire/manifest.ts'
import { HostFault } from '../core/errors.ts'
import { HttpSourceHosts } from '../host/source/http-source-hosts.ts'
import { errorChain } from '../log/error-chain.ts'
import { silentLog } from '../log/log.ts'
import { revokedNodes } from './revoked-nodes.ts'
import { issueCertificate } from './setup/certificates.ts'
import type { TestContext } from 'node:test'
import type { CertificatePair } from './setup/certificates.ts'

const never = new AbortController().signal

let authority: CertificatePair
/** Signed by the authority; the source sends it. */
let middle: CertificatePair
before(async () => {
  authority = await makeAuthority('nodes')
  middle = await makeAuthority('rack', authority)
})

const issue = (by: CertificatePair): Promise<CertificatePair> =>
  issueCertificate(
    by,
    { commonName: 'node', alternativeNames: ['127.0.0.1'], usages: ['server', 'client'] },
    Date.now(),
  )

/** A source with this certificate, and a destination with a file of revocation lists. */
async function stage(t: TestContext, source: CertificatePair, lists: string) {
  const directory = mkdtempSync(join(tmpdir(), 'revoked-nodes-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const write = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text)
    return join(directory, name)
  }
  const own = await issue(authority)
  const files = {
    caFile: write('ca', authority.certificate),
    certificateFile: write('crt', own.certificate),
    keyFile: write('key', own.key),
  }
  const path = write('revoked.pem', lists)
  const hosts = new HttpSourceHosts({
    files,
    policy: { ...ANYWHERE, allowedNetworks: ['127.0.0.0/8'] },
    readRevoked: revokedNodes(path, silentLog),
  })
  t.after(() => hosts.close())
  const server = await breakStore(
    t,
    ({ answer }) => answer(200, {}, JSON.stringify(manifestToWire(manifest))),
    { cert: source.certificate, key: source.key, ca: authority.certificate, requestCert: true },
  )
  const asked = () => hosts.at(server.origin).manifest(manifest.migrationId, never)
  return {
    server,
    asked,
    path,
    /** Asks for the manifest, and returns why it is refused. */
    refusal: async (): Promise<string> => {
      const error = await asked().then(
        () => assert.fail('it answered'),
        (thrown: unknown) => thrown,
      )
      assert.ok(error instanceof HostFault && error.code === 'source_refused', String(error))
      return errorChain(error)
    },
    list: (text: string) => write('revoked.pem', text),
  }
}

const REVOKED = /the certificate of 127\.0\.0\.1:\d+ is revoked; coordination\.revocation_file names it/

test('a source whose certificate is revoked gets no request', async (t) => {
  const source = await issue(authority)
  const { refusal, server } = await stage(t, source, await revoke(authority, [source]))
  assert.match(await refusal(), REVOKED)
  assert.equal(server.heads.length, 0)
})

test('a source that is revoked later gets no further request, also over the connection that it has', async (t) => {
  const source = await issue(authority)
  const { asked, list, refusal, server } = await stage(t, source, await revoke(authority, []))
  for (let count = 1; count <= 2; count += 1) assert.ok((await asked()).ok)
  assert.equal(server.connections(), 1)
  list(await revoke(authority, [source]))
  assert.match(await refusal(), REVOKED)
  assert.match(await refusal(), REVOKED)
  assert.equal(server.heads.length, 2)
})

test('a source below a revoked authority gets no request, on any of its connections', async (t) => {
  const leaf = await issue(middle)
  const source = { ...leaf, certificate: leaf.certificate + middle.certificate }
  const { asked, list, refusal, server } = await stage(t, source, await revoke(authority, []))
  assert.ok((await asked()).ok)
  list(await revoke(authority, [middle]))
  for (let count = 1; count <= 3; count += 1) assert.match(await refusal(), REVOKED)
  assert.equal(server.heads.length, 1)
})

test('without a list that can be used nothing connects, and the fault names the file; later, the list of before counts', async (t) => {
  const source = await issue(authority)
  const { asked, list, refusal, server, path } = await stage(t, source, 'no list')
  const text = await refusal()
  assert.ok(text.includes(`${path} cannot be used as a revocation list`), text)
  assert.equal(server.connections(), 0)
  list(await revoke(authority, []))
  assert.ok((await asked()).ok)
  list('no list')
  assert.ok((await asked()).ok)
})
