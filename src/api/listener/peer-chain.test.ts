import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { certificatesSent, peerCertificate, serialOf } from './peer-chain.ts'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

test('a connection that is already gone has no certificate', () => {
  const gone = new TLSSocket(new Socket())
  gone.destroy()
  assert.deepEqual(peerCertificate(gone), { certificate_name: undefined, certificate_serial: undefined })
  assert.deepEqual(certificatesSent(gone), [])
})

test('a serial number has one form, whatever the form that it came in', () => {
  for (const [forms, shown] of [
    [['abc', '0abc', 'ABC', '000ABC'], '0ABC'],
    [['4f1b2c', '4F1B2C', '004f1b2c'], '4F1B2C'],
    [['0', '00'], '00'],
  ] as const)
    for (const form of forms) assert.equal(serialOf(form), shown)
})

test('the form is that of openssl', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'serial-'))
  t.after(() => rmSync(directory, { recursive: true }))
  for (const serial of ['0x0abc', '0xfe01', '0x1', '0x00ab12cd34']) {
    const [key, out] = [join(directory, 'a.key'), join(directory, 'a.crt')]
    const make = ['req', '-x509', '-newkey', 'ed25519', '-noenc', '-subj', '/CN=a', '-set_serial', serial]
    execFileSync('openssl', [...make, '-keyout', key, '-out', out], { stdio: 'pipe' })
    const printed = execFileSync('openssl', ['x509', '-in', out, '-noout', '-serial', '-text'], {
      encoding: 'utf8',
    })
    const shown = serialOf(BigInt(serial).toString(16))
    assert.equal(/^serial=(.*)$/m.exec(printed)?.[1], shown)
    const pem = execFileSync('openssl', ['x509', '-in', out], { encoding: 'utf8' })
    assert.equal(new X509Certificate(pem).serialNumber, shown)
  }
})
