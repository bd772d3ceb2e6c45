import { generateKeyPairSync } from 'node:crypto'
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
import { hasErrno } from '../ffi/errno-error.ts'
import { KEY_TYPE, parsePrivateKey, renderPrivateKey } from './openssh-key.ts'

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
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const pair = checkKeyPair(stateDirectory) ?? makePrivateKey(path, hostId)
  if (!existsSync(publicPathOf(path))) writeOnce(publicPathOf(path), `${pair.publicKey}\n`, 0o644)
  return pair
}

/**
 * Returns the daemon's key pair, or undefined if there is none. Changes nothing. Throws if it cannot be used, with a
 * message for the operator. The public key alone may be absent, because it is made again.
 */
export function checkKeyPair(stateDirectory: string): KeyPair | undefined {
  const path = privateKeyPath(stateDirectory)
  const publicPath = publicPathOf(path)
  if (!existsSync(path)) {
    if (existsSync(publicPath))
      throw new Error(
        `${publicPath} is there, but ${path} is not: put it back, or remove the first to have a new key, which no guest knows`,
      )
    return undefined
  }
  const pair = readPair(path)
  if (existsSync(publicPath) && keyOf(readFileSync(publicPath, 'utf8')) !== keyOf(pair.publicKey))
    throw new Error(`${publicPath} is not the public key of ${path}: remove it, and it is made again`)
  return pair
}

const publicPathOf = (path: string): string => `${path}.pub`

/** Returns the pair that is there then, which may be that of a faster process. */
function makePrivateKey(path: string, hostId: string): KeyPair {
  const { privateKey } = generateKeyPairSync('ed25519')
  writeOnce(path, renderPrivateKey(privateKey, `vmhostd@${hostId}`), 0o600)
  return readPair(path)
}

function readPair(path: string): KeyPair {
  const privateKey = readFileSync(path, 'utf8')
  const key = parsePrivateKey(privateKey)
  const remedy = 'put the right file back, or remove it and its .pub to have a new key, which no guest knows'
  if (key === undefined) throw new Error(`${path} is not an SSH private key: ${remedy}`)
  if (key.type !== KEY_TYPE) throw new Error(`${path} is not a private key of type ed25519: ${remedy}`)
  const publicKey = `${KEY_TYPE} ${key.publicKey.toString('base64')} ${oneLine(key.comment)}`.trim()
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
