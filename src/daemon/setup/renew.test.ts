import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../../config/config.ts'
import { readTlsFiles } from '../../api/listener/tls-files.ts'
import { createAuthority } from './certificates.ts'
import { ensureCertificates } from './ensure-certificates.ts'
import { renewCertificates } from './renew.ts'
import { SetupReport } from './setup-report.ts'
import type { TestContext } from 'node:test'

const DAY_MS = 86_400_000
const MADE_MS = Date.UTC(2030, 0, 1)

/** Makes the certificates of a host as set-up does. */
async function stage(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'renew-'))
  t.after(() => rmSync(directory, { recursive: true }))
  mkdirSync(directory, { recursive: true })
  const at = (name: string): string => join(directory, name)
  const config = parseConfig(
    `[controller]\nca_file = "${at('ca.crt')}"\ncertificate_file = "${at('server.crt')}"\nkey_file = "${at('server.key')}"`,
    { path: 'config.toml', hostname: 'host-1' },
  )
  const extraNames = ['host-1.example.net', '192.0.2.1']
  await ensureCertificates({
    config,
    hostname: 'host-1',
    extraNames,
    nowMs: MADE_MS,
    report: new SetupReport(),
  })
  const read = (name: string): X509Certificate => new X509Certificate(readFileSync(at(name)))
  const renew = async (days: number, { all = false } = {}) => {
    const report = new SetupReport()
    const renewed = await renewCertificates({ config, all, nowMs: MADE_MS + days * DAY_MS, report })
    return { renewed: renewed.map((path) => path.slice(directory.length + 1)), report }
  }
  return { at, read, renew }
}

test('a certificate is renewed from 30 days before its end on, with a new key and all of its names', async (t) => {
  const { at, read, renew } = await stage(t)
  const before = read('server.crt')
  assert.deepEqual((await renew(794)).renewed, [])
  const { renewed, report } = await renew(795)
  assert.deepEqual(renewed, ['server.crt', 'controller.crt', 'node.crt'])
  assert.equal(report.complete, true)
  const after = read('server.crt')
  assert.deepEqual([after.subject, after.subjectAltName], [before.subject, before.subjectAltName])
  assert.deepEqual(after.keyUsage, before.keyUsage)
  assert.notDeepEqual(after.publicKey.export({ format: 'jwk' }), before.publicKey.export({ format: 'jwk' }))
  assert.equal(after.validToDate.getTime(), MADE_MS + (795 + 825) * DAY_MS)
  assert.equal(statSync(at('server.key')).mode & 0o777, 0o600)
  readTlsFiles({ ca: at('ca.crt'), certificate: at('server.crt'), key: at('server.key') })
  readTlsFiles({ ca: at('ca.crt'), certificate: at('node.crt'), key: at('node.key') })
  assert.deepEqual((await renew(796)).renewed, [])
})

test('without the key of the authority nothing changes, and the report says what to do', async (t) => {
  const { at, renew } = await stage(t)
  unlinkSync(at('ca.key'))
  const before = readFileSync(at('server.crt'), 'utf8')
  const { renewed, report } = await renew(800)
  assert.deepEqual([renewed, report.complete], [[], false])
  assert.match(report.text, /MISSING .*server\.crt .*ends on 2032-04-05; its authority cannot sign here/)
  assert.equal(readFileSync(at('server.crt'), 'utf8'), before)
})

test('the key of another authority signs nothing in its place', async (t) => {
  const { at, renew } = await stage(t)
  const stranger = await createAuthority('stranger', MADE_MS)
  writeFileSync(at('ca.key'), stranger.key)
  assert.deepEqual((await renew(0, { all: true })).renewed, [])
  writeFileSync(at('ca.crt'), stranger.certificate)
  const { renewed, report } = await renew(0, { all: true })
  assert.deepEqual([renewed, report.complete], [[], false])
})

test('while an authority is replaced, the one whose key is there signs, whichever is first in the file', async (t) => {
  const { at, read, renew } = await stage(t)
  const next = await createAuthority('next authority', MADE_MS)
  writeFileSync(at('ca.crt'), readFileSync(at('ca.crt'), 'utf8') + next.certificate)
  writeFileSync(at('ca.key'), next.key)
  const { renewed } = await renew(0, { all: true })
  assert.deepEqual(renewed, ['server.crt', 'controller.crt', 'node.crt'])
  for (const name of renewed)
    assert.ok(read(name).verify(new X509Certificate(next.certificate).publicKey), name)
})

test('an authority that ends before a new certificate would is warned of', async (t) => {
  const { renew } = await stage(t)
  assert.doesNotMatch((await renew(0)).report.text, /warning/)
  assert.match((await renew(3000)).report.text, /warning .*ca\.crt .*authority, ends on/)
})
