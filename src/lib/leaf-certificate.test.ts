import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { oddCertificate } from '../../test/daemon/support/odd-certificate.ts'
import { makeOwnAuthority, P256 } from '../../test/own-authority.ts'
import { commonNameOf, lackingUsages, usagesOf } from './leaf-certificate.ts'

test('a certificate that names no usage has every one, and one that names some has only those', (t) => {
  const made = (extensions: readonly string[]): X509Certificate =>
    new X509Certificate(makeOwnAuthority(t, P256, extensions).read().certificate)
  const free = made([])
  assert.deepEqual(usagesOf(free), ['server', 'client'])
  assert.deepEqual(lackingUsages(free, ['server', 'client']), [])
  const client = made(['extendedKeyUsage=clientAuth'])
  assert.deepEqual(usagesOf(client), ['client'])
  assert.deepEqual(lackingUsages(client, ['server', 'client']), ['serverAuth'])
})

test('a certificate with no common name, or with several, has none that identifies it', async (t) => {
  const authority = makeOwnAuthority(t, P256).read()
  const nameIn = async (names: readonly string[]): Promise<string | undefined> =>
    commonNameOf(new X509Certificate((await oddCertificate(authority, { names })).certificate))
  assert.equal(await nameIn(['one']), 'one')
  assert.equal(await nameIn([]), undefined)
  assert.equal(await nameIn(['one', 'two']), undefined)
})
