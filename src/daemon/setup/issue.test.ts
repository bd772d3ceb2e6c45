import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../../config/config.ts'
import { UsageError } from '../usage-error.ts'
import { ensureCertificates } from './ensure-certificates.ts'
import { issueForClient, nextForClient } from './issue.ts'
import { SetupError, SetupReport } from './setup-report.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { TestContext } from 'node:test'

const MADE_MS = Date.UTC(2030, 0, 1)

/** Makes the certificates of a host as set-up does, with a reader in its configuration. */
async function stage(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'issue-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const at = (name: string): string => join(directory, name)
  const config = parseConfig(
    `[controller]\nca_file = "${at('ca.crt')}"\ncertificate_file = "${at('server.crt')}"\nkey_file = "${at('server.key')}"
clients = [{ common_name = "anna", role = "reader" }]`,
    { path: 'config.toml', hostname: 'host-1' },
  )
  await ensureCertificates({
    config,
    hostname: 'host-1',
    extraNames: [],
    nowMs: MADE_MS,
    report: new SetupReport(),
  })
  const issue = (commonName: string) =>
    issueForClient({ config, commonName, directory, nowMs: MADE_MS + DAY_MS })
  const next = (commonName: string): string =>
    nextForClient({ config, commonName }, { certificate: at('c.crt'), key: at('c.key') }, 'config.toml')
  return { at, issue, next }
}

test('a client gets a certificate that the authority has signed, and a key that only its owner reads', async (t) => {
  const { at, issue } = await stage(t)
  const paths = await issue('anna')
  assert.deepEqual(paths, { certificate: at('anna.crt'), key: at('anna.key') })
  const certificate = new X509Certificate(readFileSync(paths.certificate))
  const authority = new X509Certificate(readFileSync(at('ca.crt')))
  assert.ok(certificate.checkIssued(authority) && certificate.verify(authority.publicKey))
  assert.equal(certificate.subject, 'CN=anna')
  assert.deepEqual(certificate.keyUsage, ['1.3.6.1.5.5.7.3.2'], 'clientAuth alone')
  assert.equal(certificate.subjectAltName, undefined)
  assert.equal(statSync(paths.key).mode & 0o777, 0o600)
})

test('no file is replaced, and half a pair is not made', async (t) => {
  const { at, issue } = await stage(t)
  await issue('anna')
  const before = readFileSync(at('anna.crt'), 'utf8')
  await assert.rejects(
    issue('anna'),
    (error) => error instanceof SetupError && error.message.includes('--directory'),
  )
  assert.equal(readFileSync(at('anna.crt'), 'utf8'), before)
  rmSync(at('anna.key'))
  await assert.rejects(issue('anna'), SetupError)
})

test('a name that is a path, that is too long, or that is the node of this host is refused', async (t) => {
  const { issue } = await stage(t)
  for (const name of ['', '../anna', 'a/b', '.hidden', 'x'.repeat(65), 'host-1', 'anna smith'])
    await assert.rejects(issue(name), UsageError)
  await issue('x'.repeat(64))
})

test('without the key of the authority it says what lacks', async (t) => {
  const { at, issue } = await stage(t)
  rmSync(at('ca.key'))
  await assert.rejects(issue('anna'), /ca\.key/)
})

test('it says what the configuration lets the client do, or how to let it in', async (t) => {
  const { next } = await stage(t)
  assert.match(next('anna'), /^config\.toml gives anna the role reader\./)
  assert.match(next('vmhost-controller'), /^config\.toml lets vmhost-controller do everything\./)
  assert.match(
    next('bob'),
    /does not name bob yet.*\n.*\n {2}clients = \[\{ common_name = "bob", role = "reader" \}\]/,
  )
})
