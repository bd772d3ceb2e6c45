import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../../config/config.ts'
import { readTlsFiles } from '../../api/listener/tls-files.ts'
import { createAuthority } from './certificates.ts'
import { ensureCertificates } from './ensure-certificates.ts'
import { renewCertificates } from './renew.ts'
import { SetupReport } from './setup-report.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { TestContext } from 'node:test'
import type { Flush } from '../../store/database/schema-copies.ts'

const MADE_MS = Date.UTC(2030, 0, 1)

/** Only root can give a file to somebody else. */
const NEEDS_ROOT = { skip: process.getuid?.() !== 0 && 'needs root' }

/** Makes the certificates of a host as set-up does. */
async function stage(t: TestContext) {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'renew-')))
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
  const renew = async (
    days: number,
    { all = false, ...more }: { all?: boolean; names?: readonly string[]; sync?: Flush } = {},
  ) => {
    const report = new SetupReport()
    const nowMs = MADE_MS + days * DAY_MS
    const renewed = await renewCertificates({ config, all, nowMs, report, ...more })
    return { renewed: renewed.map((path) => path.slice(directory.length + 1)), report }
  }
  return { at, read, renew }
}

/** Replaces the certificate of the server by one that openssl makes of this request, and the host's authority signs. */
function signServer({ at }: { readonly at: (name: string) => string }, request: string): void {
  writeFileSync(at('request.cnf'), request)
  const openssl = (...args: readonly string[]) => execFileSync('openssl', args, { stdio: 'pipe' })
  const [config, key, csr] = [at('request.cnf'), at('server.key'), at('server.csr')]
  openssl('req', '-new', '-key', key, '-config', config, '-out', csr)
  const [extensions, signer] = [
    ['-extfile', config, '-extensions', 'leaf'],
    ['-CA', at('ca.crt'), '-CAkey', at('ca.key')],
  ]
  openssl('x509', '-req', '-in', csr, ...extensions, ...signer, '-days', '7', '-out', at('server.crt'))
}

const requestOf = (subject: string, extensions: string): string =>
  `[req]\nprompt=no\ndistinguished_name=name\n[name]\n${subject}\n[leaf]\n${extensions}\n`

test('a certificate is renewed from 30 days before its end on, with a new key and all of its names', async (t) => {
  const { at, read, renew } = await stage(t)
  const before = read('server.crt')
  assert.deepEqual((await renew(793)).renewed, [])
  const { renewed, report } = await renew(794)
  assert.deepEqual(renewed, ['server.crt', 'controller.crt', 'node.crt'])
  assert.equal(report.complete, true)
  const after = read('server.crt')
  assert.deepEqual([after.subject, after.subjectAltName], [before.subject, before.subjectAltName])
  assert.deepEqual(after.keyUsage, before.keyUsage)
  assert.notDeepEqual(after.publicKey.export({ format: 'jwk' }), before.publicKey.export({ format: 'jwk' }))
  assert.equal(after.validToDate.getTime(), MADE_MS + (794 + 824) * DAY_MS)
  assert.equal(statSync(at('server.key')).mode & 0o777, 0o600)
  readTlsFiles({ ca: at('ca.crt'), certificate: at('server.crt'), key: at('server.key') })
  readTlsFiles({ ca: at('ca.crt'), certificate: at('node.crt'), key: at('node.key') })
  assert.deepEqual((await renew(795)).renewed, [])
})

test('every name of a certificate and every use is kept, of whatever kind', async (t) => {
  const { at, read, renew } = await stage(t)
  for (const [subject, extensions] of [
    [
      'C=DE\nO=Example, "Inc."\n0.OU=one\n1.OU=two\nCN=host-1\nemailAddress=ops@example.net',
      'subjectAltName=URI:spiffe://example.net/host-1,email:ops@example.net,DNS:host-1,IP:2001:db8::1,RID:1.2.3.4,otherName:1.2.3.5;UTF8:x\nextendedKeyUsage=serverAuth,emailProtection',
    ],
    ['0.CN=host-1\n1.CN=other', 'extendedKeyUsage=critical,serverAuth'],
    ['CN=host-1', 'subjectAltName=critical,DNS:a b\ncrlDistributionPoints=URI:http://example.net/a.crl'],
  ] as const) {
    signServer({ at }, requestOf(subject, extensions))
    const before = read('server.crt')
    assert.ok((await renew(0, { all: true })).renewed.includes('server.crt'))
    const after = read('server.crt')
    assert.notEqual(after.serialNumber, before.serialNumber)
    assert.equal(after.subject, before.subject)
    assert.equal(after.subjectAltName, before.subjectAltName)
    assert.deepEqual(after.keyUsage, before.keyUsage)
  }
})

test('a name that is asked for comes to the names of the server and the node, and only once', async (t) => {
  const { at, read, renew } = await stage(t)
  const before = read('server.crt').subjectAltName
  const names = ['host-1.example.com', '2001:db8::9', 'localhost']
  const { renewed, report } = await renew(0, { names })
  assert.deepEqual(renewed, ['server.crt', 'node.crt'])
  assert.match(report.text, /server\.crt .*host-1\.example\.com, 2001:db8::9 among its names/)
  const { subjectAltName } = read('server.crt')
  assert.equal(subjectAltName, `${before}, DNS:host-1.example.com, IP Address:2001:DB8:0:0:0:0:0:9`)
  readTlsFiles({ ca: at('ca.crt'), certificate: at('server.crt'), key: at('server.key') })
  assert.deepEqual((await renew(0, { names })).renewed, [])
})

test('more names than a short extension holds come to a certificate that has none, and to one that has some', async (t) => {
  const { at, read, renew } = await stage(t)
  signServer({ at }, requestOf('CN=host-1', 'extendedKeyUsage=serverAuth'))
  const names = (from: number): string[] =>
    Array.from({ length: 20 }, (_, n) => `host-${from + n}.example.net`)
  await renew(0, { names: names(0) })
  await renew(0, { names: names(100) })
  const expected = [...names(0), ...names(100)].map((name) => `DNS:${name}`).join(', ')
  assert.equal(read('server.crt').subjectAltName, expected)
})

test('a certificate with what cannot be kept is not renewed, and the report says what that is', async (t) => {
  const { at, renew } = await stage(t)
  for (const [extensions, words] of [
    ['1.2.3.4=critical,ASN1:NULL', /MISSING .*server\.crt .*the critical extension 1\.2\.3\.4/],
    ['basicConstraints=CA:TRUE', /MISSING .*server\.crt .*it is an authority/],
  ] as const) {
    signServer({ at }, requestOf('CN=host-1', extensions))
    const before = readFileSync(at('server.crt'), 'utf8')
    const { renewed, report } = await renew(0, { all: true })
    assert.deepEqual([renewed, report.complete], [['controller.crt', 'node.crt'], false])
    assert.match(report.text, words)
    assert.equal(readFileSync(at('server.crt'), 'utf8'), before)
  }
})

test('a pair is on the disk before it gets its names, and its names are when the report says so', async (t) => {
  const { at, renew } = await stage(t)
  const before = { key: readFileSync(at('server.key'), 'utf8'), crt: readFileSync(at('server.crt'), 'utf8') }
  const synced: string[] = []
  const sync = (path: string): void => {
    synced.push(relative(at('.'), path) || '.')
    if (synced.length > 2) return
    assert.ok(readFileSync(path, 'utf8').endsWith('-----\n'), path)
    assert.equal(readFileSync(at('server.key'), 'utf8'), before.key)
    assert.equal(readFileSync(at('server.crt'), 'utf8'), before.crt)
  }
  await renew(0, { all: true, sync })
  assert.deepEqual(synced.slice(0, 3), ['server.key.new', 'server.crt.new', '.'])
  assert.equal(synced.length, 9)
})

test('what an earlier try left behind is replaced, and a key is never readable for others', async (t) => {
  const { at, renew } = await stage(t)
  writeFileSync(at('server.key.new'), 'half', { mode: 0o644 })
  await renew(0, { all: true })
  assert.equal(statSync(at('server.key')).mode & 0o777, 0o600)
  readTlsFiles({ ca: at('ca.crt'), certificate: at('server.crt'), key: at('server.key') })
})

test('the new pair has the modes of the old one', async (t) => {
  const { at, renew } = await stage(t)
  chmodSync(at('server.key'), 0o640)
  chmodSync(at('server.crt'), 0o660)
  assert.ok((await renew(0, { all: true })).renewed.includes('server.crt'))
  const modes = ['server.key', 'server.crt', 'node.key'].map((name) => statSync(at(name)).mode & 0o7777)
  assert.deepEqual(modes, [0o640, 0o660, 0o600])
})

test('the new pair has the owner and the group of the old one', NEEDS_ROOT, async (t) => {
  const { at, renew } = await stage(t)
  chownSync(at('server.key'), 0, 4321)
  chmodSync(at('server.key'), 0o640)
  chownSync(at('server.crt'), 1234, 4321)
  await renew(0, { all: true })
  const kept = ['server.key', 'server.crt', 'node.key'].map((name) => {
    const { uid, gid, mode } = statSync(at(name))
    return [uid, gid, mode & 0o7777]
  })
  assert.deepEqual(kept, [
    [0, 4321, 0o640],
    [1234, 4321, 0o644],
    [0, 0, 0o600],
  ])
})

test('a link stays, and the file that it leads to is replaced', async (t) => {
  const { at, renew } = await stage(t)
  mkdirSync(at('secrets'))
  renameSync(at('server.key'), at('secrets/one.key'))
  symlinkSync('secrets/one.key', at('server.key'))
  const before = readFileSync(at('server.key'), 'utf8')
  const synced: string[] = []
  await renew(0, { all: true, sync: (path) => synced.push(relative(at('.'), path) || '.') })
  assert.ok(lstatSync(at('server.key')).isSymbolicLink())
  assert.notEqual(readFileSync(at('secrets/one.key'), 'utf8'), before)
  assert.deepEqual(synced.slice(0, 4), ['secrets/one.key.new', 'server.crt.new', 'secrets', '.'])
  readTlsFiles({ ca: at('ca.crt'), certificate: at('server.crt'), key: at('server.key') })
})

test('a link to nothing is left alone, with its certificate', async (t) => {
  const { at, renew } = await stage(t)
  unlinkSync(at('server.key'))
  symlinkSync('secrets/one.key', at('server.key'))
  const before = readFileSync(at('server.crt'), 'utf8')
  await assert.rejects(renew(0, { all: true }), /server\.key is a link to nothing: .*run this again/)
  assert.ok(lstatSync(at('server.key')).isSymbolicLink())
  assert.equal(readFileSync(at('server.crt'), 'utf8'), before)
})

test('without the key of the authority nothing changes, and the report says what to do', async (t) => {
  const { at, renew } = await stage(t)
  unlinkSync(at('ca.key'))
  const before = readFileSync(at('server.crt'), 'utf8')
  const { renewed, report } = await renew(800)
  assert.deepEqual([renewed, report.complete], [[], false])
  assert.match(
    report.text,
    /MISSING .*server\.crt .*ends on 2032-04-04; its authority cannot sign here, because .*ca\.key is not there: put that key there, or have that authority sign a new one with the same names/,
  )
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
  const { renewed, report } = await renew(0, { all: true })
  assert.deepEqual(renewed, ['server.crt', 'controller.crt', 'node.crt'])
  assert.match(report.text, /kept .*ca\.crt {2}\(authority CN=vmhostd host-1 authority, ends on/)
  assert.match(report.text, /kept .*ca\.crt {2}\(authority CN=next authority, ends on/)
  for (const name of renewed)
    assert.ok(read(name).verify(new X509Certificate(next.certificate).publicKey), name)
})

test('authorities of one name are reported with their serial numbers', async (t) => {
  const { at, read, renew } = await stage(t)
  const name = read('ca.crt').subject.replace('CN=', '')
  const next = await createAuthority(name, MADE_MS)
  writeFileSync(at('ca.crt'), readFileSync(at('ca.crt'), 'utf8') + next.certificate)
  const { report } = await renew(0)
  for (const { serialNumber } of [read('ca.crt'), new X509Certificate(next.certificate)])
    assert.ok(report.text.includes(`serial number ${serialNumber}, ends on`), report.text)
})

test('a pair stays as it is if others would refuse the new one', async (t) => {
  const { at, renew } = await stage(t)
  const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-noenc']
  const next = ['-subj', '/CN=next', '-addext', 'keyUsage=critical,cRLSign']
  execFileSync('openssl', [...request, ...next, '-keyout', at('ca.key'), '-out', at('next.crt')], {
    stdio: 'pipe',
  })
  writeFileSync(at('ca.crt'), readFileSync(at('ca.crt'), 'utf8') + readFileSync(at('next.crt'), 'utf8'))
  const before = ['server.key', 'server.crt'].map((name) => readFileSync(at(name), 'utf8'))
  await assert.rejects(renew(0, { all: true }), /the authority CN=next cannot sign .*keyCertSign/)
  const after = ['server.key', 'server.crt'].map((name) => readFileSync(at(name), 'utf8'))
  assert.deepEqual(after, before)
})

test('an authority that ends before a new certificate would is warned of', async (t) => {
  const { renew } = await stage(t)
  assert.doesNotMatch((await renew(0)).report.text, /warning/)
  assert.match((await renew(3000)).report.text, /warning .*ca\.crt .*authority CN=.*, ends on/)
})

test('a certificate that is not valid yet is renewed, and an authority that is not is reported', async (t) => {
  const { at, read, renew } = await stage(t)
  const { renewed, report } = await renew(-400)
  assert.deepEqual([renewed, report.complete], [['server.crt', 'controller.crt', 'node.crt'], false])
  assert.match(report.text, /changed .*server\.crt .*the one before begins only on 2029-12-31 at 00:00 UTC/)
  assert.match(
    report.text,
    /MISSING .*ca\.crt .*authority CN=.*, begins only on 2029-12-31 at 00:00 UTC: .*"Replace an authority.*certificates\.md/,
  )
  assert.equal(read('server.crt').validToDate.getTime(), MADE_MS + (824 - 400) * DAY_MS)
  const next = await createAuthority('next authority', MADE_MS - 400 * DAY_MS)
  writeFileSync(at('ca.crt'), readFileSync(at('ca.crt'), 'utf8') + next.certificate)
  writeFileSync(at('ca.key'), next.key)
  await renew(-400, { all: true })
  writeFileSync(at('ca.crt'), next.certificate)
  assert.deepEqual((await renew(-400)).report.complete, true)
  assert.ok(read('server.crt').verify(new X509Certificate(next.certificate).publicKey))
})

test('a certificate whose key is another one is not reported as kept', async (t) => {
  const { at, read, renew } = await stage(t)
  const before = read('server.crt').serialNumber
  writeFileSync(at('server.key'), readFileSync(at('controller.key')))
  const { renewed, report } = await renew(0)
  assert.deepEqual(renewed, [])
  assert.equal(report.complete, false)
  assert.match(report.text, /MISSING .*server\.crt {2}\(\S+server\.key is not its key: .*renew --all, /)
  assert.equal(read('server.crt').serialNumber, before)
  assert.ok((await renew(0, { all: true })).renewed.includes('server.crt'))
  assert.equal((await renew(0)).report.complete, true)
})

test('a file that is not a certificate is reported by its name, and the others are renewed', async (t) => {
  const { at, renew } = await stage(t)
  writeFileSync(at('server.crt'), readFileSync(at('server.key')))
  const { renewed, report } = await renew(0, { all: true })
  assert.deepEqual(renewed, ['controller.crt', 'node.crt'])
  assert.match(report.text, /MISSING .*server\.crt {2}\(it is not a certificate: put the right file back\)/)
  for (const content of ['', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n']) {
    writeFileSync(at('ca.crt'), content)
    const { renewed: none, report: other } = await renew(0, { all: true })
    assert.deepEqual(none, [])
    assert.equal(other.complete, false)
    assert.match(
      other.text,
      /MISSING .*node\.crt .* because \S+ca\.crt is not a certificate: put the right file/,
    )
    assert.match(other.text, /MISSING .*ca\.crt {2}\(it is not a certificate: put the right file back\)/)
  }
})
