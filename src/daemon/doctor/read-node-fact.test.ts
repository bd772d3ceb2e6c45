import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeAuthority } from '../../../test/daemon/support/intermediates.ts'
import { parseConfig } from '../../config/config.ts'
import { issueCertificate } from '../setup/certificates.ts'
import { readNodeFact } from './read-node-fact.ts'
import type { TestContext } from 'node:test'
import type { CertificatePair, LeafRequest } from '../setup/certificates.ts'

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
})

test('a node whose certificate cannot be read has its reason elsewhere', async (t) => {
  assert.equal(await factOf(t, 'nothing', ''), undefined)
  assert.deepEqual(await readNodeFact({ host, coordination: { ...coordination, enabled: false } }), {})
})
