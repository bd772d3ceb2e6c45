import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeAuthority } from '../../../test/daemon/support/intermediates.ts'
import { revoke } from '../../../test/daemon/support/revocations.ts'
import { parseConfig } from '../../config/config.ts'
import { createAuthority, issueCertificate } from '../setup/certificates.ts'
import { readTlsFacts, readNodeFact } from './read-tls-facts.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { TestContext } from 'node:test'
import type { CertificatePair, LeafRequest } from '../setup/certificates.ts'
import type { Config } from '../../config/config.ts'

/** Makes the files of the listener for controllers, with two authorities: the second one ends 1,000 days earlier. */
async function stage(
  t: TestContext,
  list: (authority: CertificatePair) => Promise<string>,
  trusted?: (authority: CertificatePair) => string,
) {
  const directory = mkdtempSync(join(tmpdir(), 'doctor-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const at = (name: string): string => join(directory, name)
  const authority = await createAuthority('one', Date.now())
  const old = await createAuthority('old', Date.now() - 1000 * DAY_MS)
  const server = await issueCertificate(
    authority,
    { commonName: 'host-1', alternativeNames: [], usages: ['server'] },
    Date.now(),
  )
  writeFileSync(at('ca.crt'), trusted?.(authority) ?? authority.certificate + old.certificate)
  writeFileSync(at('server.crt'), server.certificate)
  writeFileSync(at('server.key'), server.key)
  writeFileSync(at('revoked.pem'), await list(authority))
  const config: Config = parseConfig('', { path: 'the defaults', hostname: 'host-1' })
  return readTlsFacts({
    controller: {
      ...config.controller,
      caFile: at('ca.crt'),
      certificateFile: at('server.crt'),
      keyFile: at('server.key'),
      revocationFile: at('revoked.pem'),
    },
    coordination: { ...config.coordination, enabled: false },
  })
}

test('each certificate of a file is a fact, and so are the lists', async (t) => {
  const { tlsFiles, certificates, revocations } = await stage(t, (authority) => revoke(authority, []))
  assert.deepEqual(
    tlsFiles.map(({ files }) => files.known),
    [true],
  )
  const [server, first, second, ...more] = certificates
  assert.deepEqual(
    [server?.name, first?.name, second?.name, more],
    ['server', 'authority', 'authority 2', []],
  )
  assert.deepEqual(
    certificates.map(({ isAuthority }) => isAuthority),
    [false, true, true],
  )
  assert.ok((second?.notAfterMs ?? Infinity) < (first?.notAfterMs ?? 0))
  assert.ok(revocations[0]?.lists.known)
  assert.deepEqual(revocations[0].withoutList, ['CN=old'])
})

test('a list that keeps the listener from starting has its reason', async (t) => {
  const { revocations } = await stage(t, async (authority) => (await revoke(authority, [])).slice(0, 200))
  const lists = revocations[0]?.lists
  assert.match(lists?.known === false ? lists.because : '', /it is not whole/)
})

test('a file of authorities without a root trusts no certificate', async (t) => {
  const root = await makeAuthority('root')
  const intermediate = await makeAuthority('intermediate', root)
  const found = async (trusted: string) => {
    const { tlsFiles } = await stage(
      t,
      (authority) => revoke(authority, []),
      () => trusted,
    )
    return tlsFiles[0]?.files
  }
  const alone = await found(intermediate.certificate)
  assert.match(
    alone?.known === false ? alone.because : '',
    /ca\.crt trusts no certificate: CN=root, which signed CN=intermediate, is not in it$/,
  )
  assert.equal((await found(intermediate.certificate + root.certificate))?.known, true)
})

const { host, coordination } = parseConfig('', { path: 'the defaults', hostname: 'host-1' })

/** Reads the fact about a node with this certificate and these authorities. */
async function factOf(t: TestContext, certificate: string, trusted: string) {
  const directory = mkdtempSync(join(tmpdir(), 'node-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const [certificateFile, caFile] = [join(directory, 'node.crt'), join(directory, 'ca.crt')]
  writeFileSync(certificateFile, certificate)
  writeFileSync(caFile, trusted)
  const { node } = await readNodeFact({ host, coordination: { ...coordination, certificateFile, caFile } })
  return node
}

const leafOf = async (authority: CertificatePair, changes: Partial<LeafRequest> = {}): Promise<string> => {
  const leaf = {
    commonName: 'host-1',
    alternativeNames: [],
    usages: ['server', 'client'] as const,
    ...changes,
  }
  return (await issueCertificate(authority, leaf, Date.now())).certificate
}

test('a node that has its name and both usages, under an authority of nodes, is known to other hosts', async (t) => {
  const root = await makeAuthority('root')
  const intermediate = await makeAuthority('intermediate', root)
  const known = { known: true, value: 'host-1' }
  assert.deepEqual(await factOf(t, await leafOf(root), root.certificate), known)
  const leaf = await leafOf(intermediate)
  assert.deepEqual(await factOf(t, leaf + intermediate.certificate, root.certificate), known)
  assert.deepEqual(await factOf(t, leaf, intermediate.certificate + root.certificate), known)
})

test('each reason why other hosts do not know a node is named', async (t) => {
  const [one, other] = [await makeAuthority('one'), await makeAuthority('other')]
  const because = async (certificate: string): Promise<string> => {
    const node = await factOf(t, certificate, one.certificate)
    return node?.known === false ? node.because : 'it is known'
  }
  assert.match(
    await because(await leafOf(one, { commonName: 'old' })),
    /node\.crt: its common name is not host\.id, host-1$/,
  )
  assert.match(await because(await leafOf(one, { usages: ['server'] })), /not have the usage clientAuth$/)
  assert.match(await because(await leafOf(one, { usages: ['client'] })), /not have the usage serverAuth$/)
  assert.match(await because(await leafOf(other)), /no authority in \S+ca\.crt signed it$/)
  const faultOf = async (certificate: string): Promise<string | undefined> => {
    const node = await factOf(t, certificate, one.certificate)
    return node?.known === false ? node.fault : 'it is known'
  }
  assert.equal(await faultOf(await leafOf(other)), 'authority')
  assert.equal(await faultOf(await leafOf(other, { commonName: 'old' })), undefined)
})

test('a node whose certificate or authority cannot be read has its reason elsewhere', async (t) => {
  const leaf = await leafOf(await makeAuthority('one'))
  for (const broken of ['', 'nothing']) assert.equal(await factOf(t, leaf, broken), undefined)
  assert.equal(await factOf(t, 'nothing', ''), undefined)
  assert.deepEqual(await readNodeFact({ host, coordination: { ...coordination, enabled: false } }), {})
})
