import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkKeyPair, ensureKeyPair, privateKeyPath } from './key-pair.ts'
import { renderPrivateKey } from './openssh-key.ts'
import { utils } from './ssh2.ts'
import type { TestContext } from 'node:test'

const HOST = 'host-1'

function stateDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'ssh-key-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return directory
}

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8)
const bytesOf = (state: string): string[] =>
  ['id_ed25519', 'id_ed25519.pub'].map((name) => readFileSync(join(state, 'ssh', name), 'utf8'))

function parsed(key: string) {
  const found = utils.parseKey(key)
  assert.ok(!(found instanceof Error), 'no key')
  return found
}

test('a key pair is made, named after the host, and only the daemon can read it', (t) => {
  const state = stateDirectory(t)
  const { privateKey, publicKey } = ensureKeyPair(state, HOST)
  assert.match(publicKey, /^ssh-ed25519 [A-Za-z0-9+/]{68} vmhostd@host-1$/)
  assert.deepEqual(bytesOf(state), [privateKey, `${publicKey}\n`])
  assert.equal(modeOf(join(state, 'ssh')), '700')
  assert.equal(modeOf(privateKeyPath(state)), '600')
  assert.deepEqual(readdirSync(join(state, 'ssh')).toSorted(), ['id_ed25519', 'id_ed25519.pub'])
})

test('an existing pair is kept byte for byte', (t) => {
  const state = stateDirectory(t)
  const pair = ensureKeyPair(state, HOST)
  const before = bytesOf(state)
  assert.deepEqual(ensureKeyPair(state, 'renamed'), pair)
  assert.deepEqual(bytesOf(state), before)
})

test('a missing public key is made again from the private one', (t) => {
  const state = stateDirectory(t)
  const pair = ensureKeyPair(state, HOST)
  unlinkSync(`${privateKeyPath(state)}.pub`)
  assert.deepEqual(ensureKeyPair(state, HOST), pair)
  assert.deepEqual(bytesOf(state), [pair.privateKey, `${pair.publicKey}\n`])
})

test('a missing private key is not made again beside the public one that guests know', (t) => {
  const state = stateDirectory(t)
  ensureKeyPair(state, HOST)
  unlinkSync(privateKeyPath(state))
  assert.throws(
    () => ensureKeyPair(state, HOST),
    /id_ed25519\.pub is there, but .*id_ed25519 is not: put it back/,
  )
  assert.deepEqual(readdirSync(join(state, 'ssh')), ['id_ed25519.pub'])
})

test('a private key that cannot be used is named, left as it is, and not shown', (t) => {
  const state = stateDirectory(t)
  const { privateKey, publicKey } = ensureKeyPair(state, HOST)
  const rsa = utils.generateKeyPairSync('rsa', { bits: 2048 }).private
  const lock = { passphrase: 'secret', cipher: 'aes256-ctr', rounds: 1 } as const
  const locked = utils.generateKeyPairSync('ed25519', lock).private
  const cases: readonly (readonly [string, RegExp])[] = [
    ['', /is not an SSH private key: put the right file back/],
    [privateKey.slice(0, 200), /is not an SSH private key/],
    [publicKey, /is not an SSH private key/],
    [locked, /is not an SSH private key/],
    [withAnotherPublicKey(privateKey), /is not an SSH private key/],
    [rsa, /is not a private key of type ed25519/],
  ]
  for (const [content, expected] of cases) {
    writeFileSync(privateKeyPath(state), content)
    assert.throws(
      () => ensureKeyPair(state, HOST),
      (error: Error) => {
        assert.match(error.message, expected)
        assert.ok(!`${error.message} ${String(error.cause)}`.includes(privateKey.slice(60, 90)))
        return true
      },
    )
    assert.equal(readFileSync(privateKeyPath(state), 'utf8'), content)
  }
})

/** Changes a byte of the public key in a private key's file; the private part still has the right one. */
function withAnotherPublicKey(privateKey: string): string {
  const [first = '', ...lines] = privateKey.trim().split('\n')
  const last = lines.pop() ?? ''
  const file = Buffer.from(lines.join(''), 'base64')
  const at = file.indexOf('ssh-ed25519') + 'ssh-ed25519'.length + 4
  file.writeUInt8(file.readUInt8(at) ^ 1, at)
  return [first, file.toString('base64'), last, ''].join('\n')
}

test("another pair's public key is not taken for this one's", (t) => {
  const state = stateDirectory(t)
  ensureKeyPair(state, HOST)
  const other = ensureKeyPair(stateDirectory(t), HOST)
  writeFileSync(`${privateKeyPath(state)}.pub`, `${other.publicKey}\n`)
  assert.throws(() => ensureKeyPair(state, HOST), /id_ed25519\.pub is not the public key of/)
})

test('a check of the pair refuses what the daemon refuses, and makes nothing', (t) => {
  const empty = stateDirectory(t)
  assert.equal(checkKeyPair(empty), undefined)
  assert.deepEqual(readdirSync(empty), [])

  const state = stateDirectory(t)
  const { publicKey } = ensureKeyPair(state, HOST)
  const path = privateKeyPath(state)
  const privateKey = readFileSync(path)
  assert.equal(checkKeyPair(state)?.publicKey, publicKey)
  writeFileSync(`${path}.pub`, ensureKeyPair(stateDirectory(t), HOST).publicKey)
  assert.throws(() => checkKeyPair(state), /id_ed25519\.pub is not the public key of/)
  unlinkSync(path)
  assert.throws(() => checkKeyPair(state), /id_ed25519\.pub is there, but .*id_ed25519 is not/)
  unlinkSync(`${path}.pub`)
  writeFileSync(path, utils.generateKeyPairSync('rsa', { bits: 2048 }).private)
  assert.throws(() => checkKeyPair(state), /is not a private key of type ed25519/)
  writeFileSync(path, privateKey)
  assert.equal(checkKeyPair(state)?.publicKey, publicKey)
  assert.deepEqual(readdirSync(join(state, 'ssh')), ['id_ed25519'])
})

test('a comment cannot begin another line of authorized_keys', (t) => {
  const state = stateDirectory(t)
  ensureKeyPair(state, HOST)
  const { privateKey } = generateKeyPairSync('ed25519')
  writeFileSync(privateKeyPath(state), renderPrivateKey(privateKey, 'a\nssh-ed25519 AAAA\0b'))
  unlinkSync(`${privateKeyPath(state)}.pub`)
  assert.match(ensureKeyPair(state, HOST).publicKey, /^ssh-ed25519 [A-Za-z0-9+/]{68} a ssh-ed25519 AAAA b$/)
})

test('every key is complete, also one whose public part begins with a zero', () => {
  const zero = findKey((publicPart) => publicPart[0] === 0)
  for (const key of [zero, ...Array.from({ length: 20 }, () => findKey(() => true))]) {
    const read = parsed(renderPrivateKey(key, 'a comment'))
    assert.equal(read.comment, 'a comment')
    const { x = '' } = key.export({ format: 'jwk' })
    assert.deepEqual(read.getPublicSSH().subarray(-32), Buffer.from(x, 'base64url'))
    const line = `ssh-ed25519 ${read.getPublicSSH().toString('base64')}`
    const said = Buffer.from('said')
    assert.equal(parsed(line).verify(said, read.sign(said)), true)
  }
})

/** Finds a key. One in 256 begins with a zero: 10,000 tries miss it once in 10^17 runs. */
function findKey(isWanted: (publicPart: Buffer) => boolean) {
  for (let tries = 0; tries < 10_000; tries += 1) {
    const { privateKey } = generateKeyPairSync('ed25519')
    if (isWanted(Buffer.from(privateKey.export({ format: 'jwk' }).x ?? '', 'base64url'))) return privateKey
  }
  throw new Error('no such key')
}
