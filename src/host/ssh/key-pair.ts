import { generateKeyPairSync, randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { utils } from './ssh2.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import type { KeyObject } from 'node:crypto'

const KEY_TYPE = 'ssh-ed25519'

/** The key with which the daemon logs in to guests. */
type KeyPair = {
  /** The private key in OpenSSH's format, without a passphrase. */
  readonly privateKey: string
  /** The public key in one line, as in authorized_keys (sshd(8)). */
  readonly publicKey: string
}

export const privateKeyPath = (stateDirectory: string): string => join(stateDirectory, 'ssh', 'id_ed25519')

/**
 * Returns the daemon's key pair, and makes it if there is none. An existing one is never replaced, because guests know
 * it. Throws if it cannot be used, with a message for the operator.
 */
export function ensureKeyPair(stateDirectory: string, hostId: string): KeyPair {
  const path = privateKeyPath(stateDirectory)
  const publicPath = `${path}.pub`
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  if (!existsSync(path)) {
    if (existsSync(publicPath))
      throw new Error(
        `${publicPath} is there, but ${path} is not: put it back, or remove the first to have a new key, which no guest knows`,
      )
    const { privateKey } = generateKeyPairSync('ed25519')
    writeOnce(path, renderPrivateKey(privateKey, `vmhostd@${hostId}`), 0o600)
  }
  const pair = readPair(path)
  if (!existsSync(publicPath)) writeOnce(publicPath, `${pair.publicKey}\n`, 0o644)
  else if (keyOf(readFileSync(publicPath, 'utf8')) !== keyOf(pair.publicKey))
    throw new Error(`${publicPath} is not the public key of ${path}: remove it, and it is made again`)
  return pair
}

function readPair(path: string): KeyPair {
  const privateKey = readFileSync(path, 'utf8')
  const key = utils.parseKey(privateKey)
  const remedy = 'put the right file back, or remove it and its .pub to have a new key, which no guest knows'
  if (key instanceof Error) throw new Error(`${path} is not an SSH private key: ${remedy}`, { cause: key })
  if (!key.isPrivateKey() || key.type !== KEY_TYPE)
    throw new Error(`${path} is not a private key of type ed25519: ${remedy}`)
  const publicKey = `${KEY_TYPE} ${key.getPublicSSH().toString('base64')} ${oneLine(key.comment)}`.trim()
  return { privateKey, publicKey }
}

/** Removes line breaks from a comment. A line break would begin another line of authorized_keys. */
const oneLine = (comment: string): string => comment.replaceAll(/[\s\p{Cc}]+/gu, ' ')

/** Returns the type and the key, without the comment. */
const keyOf = (line: string): string => line.trim().split(/\s+/).slice(0, 2).join(' ')

/** Writes a file atomically, even across a power failure. An existing file of that name is kept. */
function writeOnce(path: string, content: string, mode: number): void {
  const temporary = `${path}.${process.pid}.new`
  rmSync(temporary, { force: true })
  try {
    const file = openSync(temporary, 'wx', mode)
    try {
      writeSync(file, content)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    // A rename would replace the key of a faster process.
    linkUnlessThere(temporary, path)
  } finally {
    rmSync(temporary, { force: true })
  }
  syncDirectory(dirname(path))
}

function linkUnlessThere(from: string, to: string): void {
  try {
    linkSync(from, to)
  } catch (error) {
    if (!hasErrno(error, 'EEXIST')) throw error
  }
}

function syncDirectory(path: string): void {
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

const MAGIC = Buffer.from('openssh-key-v1\0')
/** The padding for no cipher (PROTOCOL.key, 3). */
const BLOCK_BYTES = 8
const COLUMNS = 70

/**
 * Renders an ed25519 private key in OpenSSH's format, without a passphrase (OpenSSH, "PROTOCOL.key"). It is done here
 * because ssh2's own generator drops a leading zero of the public key, and so breaks one key in 256.
 */
export function renderPrivateKey(key: KeyObject, comment: string): string {
  const { x = '', d = '' } = key.export({ format: 'jwk' })
  const [publicPart, privatePart] = [Buffer.from(x, 'base64url'), Buffer.from(d, 'base64url')]
  const publicKey = Buffer.concat([field(KEY_TYPE), field(publicPart)])
  const check = randomBytes(4)
  const section = padded(
    Buffer.concat([
      ...[check, check, publicKey],
      ...[field(Buffer.concat([privatePart, publicPart])), field(comment)],
    ]),
  )
  const file = Buffer.concat([
    ...[MAGIC, field('none'), field('none'), field(''), number(1)],
    ...[field(publicKey), field(section)],
  ])
  const lines = file.toString('base64').match(new RegExp(`.{1,${COLUMNS}}`, 'g')) ?? []
  return ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n')
}

/** Encodes a string of RFC 4251, 5. */
function field(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content)
  return Buffer.concat([number(bytes.length), bytes])
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** Pads with the bytes 1, 2, 3 and so on. */
function padded(section: Buffer): Buffer {
  const length = (BLOCK_BYTES - (section.length % BLOCK_BYTES)) % BLOCK_BYTES
  return Buffer.concat([section, Buffer.from(Array.from({ length }, (_, index) => index + 1))])
}
