import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { createAuthority, issueCertificate } from '../../daemon/setup/certificates.ts'
import { createLog } from '../../log/logger.ts'
import { revoke } from '../../../test/daemon/support/revocations.ts'
import { Revocations } from './revocations.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { TestContext } from 'node:test'
import type { CertificatePair } from '../../daemon/setup/certificates.ts'

const leaf = { commonName: 'anna', alternativeNames: [], usages: ['client'] } as const

let authority: CertificatePair
let other: CertificatePair
let anna: CertificatePair
let ben: CertificatePair
before(async () => {
  const nowMs = Date.now()
  authority = await createAuthority('one', nowMs)
  other = await createAuthority('two', nowMs)
  anna = await issueCertificate(authority, leaf, nowMs)
  ben = await issueCertificate(other, leaf, nowMs)
})

const certificateOf = (pair: CertificatePair): X509Certificate => new X509Certificate(pair.certificate)

/** `trusted` are the authorities, which a test may change. */
async function stage(t: TestContext, text: string, trusted: readonly CertificatePair[] = [authority]) {
  const directory = mkdtempSync(join(tmpdir(), 'revoked-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'revoked.pem')
  writeFileSync(path, text)
  const lines: string[] = []
  const log = createLog({ level: 'debug', write: (line) => lines.push(line) })
  const time = { nowMs: Date.now() }
  const authorities = () => Buffer.from(trusted.map(({ certificate }) => certificate).join(''))
  const revocations = await Revocations.open({ path, log, authorities, now: () => time.nowMs })
  const warnings = () => lines.filter((line) => line.includes('"level":"warn"'))
  return { revocations, path, lines, warnings, time, write: (next: string) => writeFileSync(path, next) }
}

test('what the list of its own authority names is revoked, and nothing else', async (t) => {
  const both = (await revoke(authority, [anna])) + (await revoke(other, []))
  const { revocations } = await stage(t, both, [authority, other])
  assert.deepEqual(
    [anna, ben].map((pair) => revocations.has(certificateOf(pair))),
    [true, false],
  )
  assert.equal(revocations.state.revoked, 1)
  // The number of another authority's certificate revokes nothing here.
  const foreign = await stage(t, await revoke(other, [anna]), [authority, other])
  assert.equal(foreign.revocations.has(certificateOf(anna)), false)
})

test('a list of openssl is read like any other', async (t) => {
  const { path, write } = await stage(t, await revoke(authority, []))
  const at = (name: string): string => join(path, '..', name)
  writeFileSync(at('ca.crt'), authority.certificate)
  writeFileSync(at('ca.key'), authority.key)
  writeFileSync(at('anna.crt'), anna.certificate)
  writeFileSync(at('index'), '')
  writeFileSync(at('number'), '01\n')
  writeFileSync(
    at('ca.cnf'),
    `[ca]\ndefault_ca=d\n[d]\ndatabase=${at('index')}\ncrlnumber=${at('number')}\ndefault_md=sha256\n`,
  )
  const openssl = (...args: string[]): Buffer =>
    execFileSync(
      'openssl',
      ['ca', '-config', at('ca.cnf'), '-cert', at('ca.crt'), '-keyfile', at('ca.key'), ...args],
      {
        stdio: 'pipe',
      },
    )
  openssl('-revoke', at('anna.crt'))
  const made = openssl('-gencrl', '-crldays', '7').toString()
  write(made)
  const { revocations } = await stage(t, made)
  assert.equal(revocations.has(certificateOf(anna)), true)
})

test('a changed file is in use after the next look, and an unchanged one is not read again', async (t) => {
  const { revocations, write, lines } = await stage(t, await revoke(authority, []))
  assert.equal(await revocations.look(), false)
  write(await revoke(authority, [anna]))
  assert.equal(await revocations.look(), true)
  assert.equal(revocations.has(certificateOf(anna)), true)
  assert.match(lines.join(''), /"revoked":1,.*revocation list replaced/)
})

test('an unusable file leaves the previous list in use, and one line says why', async (t) => {
  const good = await revoke(authority, [anna])
  const { revocations, write, warnings } = await stage(t, good)
  const damaged = good.replace(/[A-Za-z]{4}(?=[^\n]*\n-----END)/, 'AAAA')
  const cases: readonly (readonly [string, RegExp])[] = [
    ['', /there is not a block/],
    [damaged, /cannot|not signed|refused/],
    [await revoke({ ...other, certificate: authority.certificate }, []), /not signed by it/],
    [await revoke(other, []), /there is no list of an authority that is trusted here/],
    [good.trimEnd().slice(0, -1), /a block in it has no end/],
    [good + good.slice(0, 200), /a block in it has no end/],
    [good + good.slice(0, 20), /a block in it has no end/],
    [good + good.slice(good.indexOf('\n') + 1), /a block in it has no end/],
    [await revoke(authority, [], { partial: true }), /is for a part of the certificates/],
  ]
  for (const [text, reason] of cases) {
    const linesBefore = warnings().length
    write(text)
    assert.equal(await revocations.look(), false)
    assert.equal(await revocations.look(), false)
    assert.equal(revocations.has(certificateOf(anna)), true)
    const [line = '', ...more] = warnings().slice(linesBefore)
    assert.match(line, reason)
    assert.deepEqual(more, [])
    write(good)
    await revocations.look()
  }
})

test('a file that lacks the list of an authority that is still trusted changes nothing', async (t) => {
  const [ofOne, ofTwo] = [await revoke(authority, [anna]), await revoke(other, [ben])]
  const { revocations, write, warnings } = await stage(t, ofOne + ofTwo, [authority, other])
  write(ofOne)
  assert.equal(await revocations.look(), false)
  assert.match(warnings().join(''), /there is no list of CN=two in it any more/)
  assert.equal(revocations.has(certificateOf(ben)), true)
})

test('an older list changes nothing, and one that the authority made later does', async (t) => {
  const first = await revoke(authority, [anna], { number: 7, age: 3 })
  const { revocations, write, warnings } = await stage(t, first)
  const older = [
    await revoke(authority, [], { number: 6, age: 1 }),
    await revoke(authority, [], { number: 7, age: 4 }),
    await revoke(authority, [], { age: 4 }),
  ]
  for (const text of older) {
    const linesBefore = warnings().length
    write(text)
    assert.equal(await revocations.look(), false)
    assert.equal(revocations.has(certificateOf(anna)), true)
    assert.match(
      warnings().slice(linesBefore).join(''),
      /the list of CN=one in it is older than the one in use/,
    )
    write(first)
    await revocations.look()
  }
  write(await revoke(authority, [], { number: 8, age: 4 }))
  assert.equal(await revocations.look(), true)
  assert.equal(revocations.has(certificateOf(anna)), false)
  write(await revoke(authority, [anna], { age: 2 }))
  assert.equal(await revocations.look(), true)
  assert.equal(revocations.has(certificateOf(anna)), true)
})

test('the list of an authority that is not trusted is passed over, and the log says so once', async (t) => {
  const trusted = [authority, other]
  const both = (await revoke(authority, [anna])) + (await revoke(other, [ben]))
  const { revocations, write, warnings } = await stage(t, both, trusted)
  assert.deepEqual(warnings(), [])
  trusted.shift()
  assert.equal(await revocations.look(), true)
  assert.equal(revocations.has(certificateOf(ben)), true)
  assert.equal(await revocations.look(), false)
  const [line = '', ...more] = warnings()
  assert.match(line, /CN=one.*lists of authorities that are not trusted here are not used/)
  assert.deepEqual(more, [])
  write(await revoke(other, [ben]))
  assert.equal(await revocations.look(), true)
  assert.equal(warnings().length, 1)
  // A start has the same.
  const started = await stage(t, both, [other])
  assert.equal(started.revocations.has(certificateOf(ben)), true)
  assert.equal(started.warnings().length, 1)
})

test('a start with a file that is unusable, or not whole, or of other authorities fails with its path', async (t) => {
  const good = await revoke(authority, [])
  for (const text of ['nothing', good + good.slice(0, 200), await revoke(other, [])])
    await assert.rejects(stage(t, text), /revoked\.pem cannot be used as a revocation list/)
})

test('an expired list stays in use, and the log says so once a day', async (t) => {
  const { revocations, time, warnings } = await stage(t, await revoke(authority, [anna], { days: 1 }))
  await revocations.look()
  assert.deepEqual(warnings(), [])
  time.nowMs += 2 * DAY_MS
  await revocations.look()
  await revocations.look()
  assert.equal(warnings().length, 1)
  assert.match(warnings()[0] ?? '', /revocation list has expired/)
  time.nowMs += DAY_MS
  await revocations.look()
  assert.equal(warnings().length, 2)
  assert.equal(revocations.has(certificateOf(anna)), true)
  assert.equal(revocations.has(certificateOf(ben)), false)
})

test('the log says daily that a list has expired, also after a clock that was a year ahead', async (t) => {
  const { revocations, time, warnings } = await stage(t, await revoke(authority, [anna], { days: 1 }))
  const trueMs = time.nowMs
  time.nowMs += 365 * DAY_MS
  await revocations.look()
  assert.equal(warnings().length, 1)
  time.nowMs = trueMs + 2 * DAY_MS
  await revocations.look()
  await revocations.look()
  assert.equal(warnings().length, 2)
})

test('an authority that is trusted without a list is named at the start', async (t) => {
  const { warnings, write, revocations } = await stage(t, await revoke(authority, [anna]), [authority, other])
  assert.equal(warnings().length, 1)
  assert.match(warnings().join(), /"issuers":\["CN=two"\].*have no revocation list/)
  write((await revoke(authority, [anna])) + (await revoke(other, [])))
  assert.ok(await revocations.look())
  assert.equal(warnings().length, 1)
})
