import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../config/config.ts'
import { errorChain } from '../log/error-chain.ts'
import { createAuthority } from './setup/certificates.ts'
import { extraAuthorities } from './extra-authorities.ts'

test('each authority of the file is read, and a file that cannot be used is named with its key', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'authorities-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'extra.pem')
  const read = (text: string) =>
    extraAuthorities(parseConfig(text, { path: 'config.toml', hostname: 'host-1' }))
  const readFile = () => read(`[object_store]\nextra_ca_file = "${file}"`)
  const refusal = (): string => {
    try {
      return String(readFile())
    } catch (error) {
      return errorChain(error)
    }
  }
  assert.equal(read(''), undefined)
  assert.match(refusal(), /extra\.pem, which object_store\.extra_ca_file names, cannot be used: ENOENT/)
  writeFileSync(file, 'nothing')
  assert.match(refusal(), /object_store\.extra_ca_file names, cannot be used: it has no certificate/)
  const authorities = await Promise.all(['one', 'two'].map((name) => createAuthority(name, Date.now())))
  writeFileSync(file, authorities.map(({ certificate }) => certificate).join(''))
  assert.equal(readFile()?.length, 2)
  const [one, two] = authorities.map(({ certificate }) => certificate)
  writeFileSync(file, `${one}${two?.replace(/\nM.../, '\nAAAA')}`)
  assert.match(refusal(), /extra_ca_file names, cannot be used: block 2 in it is not a certificate: /)
})
