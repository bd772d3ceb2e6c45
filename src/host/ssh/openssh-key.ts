import { randomBytes } from 'node:crypto'
import type { KeyObject } from 'node:crypto'

/*
 * OpenSSH's format for a private key without a passphrase (OpenSSH, "PROTOCOL.key"). It is read here, and not by ssh2,
 * because every daemon reads its key, and few ever open a shell.
 */

export const KEY_TYPE = 'ssh-ed25519'

const MAGIC = Buffer.from('openssh-key-v1\0')
/** The padding for no cipher (PROTOCOL.key, 3). */
const BLOCK_BYTES = 8
const COLUMNS = 70
const FIRST_LINE = '-----BEGIN OPENSSH PRIVATE KEY-----'
const LAST_LINE = '-----END OPENSSH PRIVATE KEY-----'

/**
 * Renders an ed25519 private key. ssh2's own generator drops a leading zero of the public key:
 * it breaks one key in 256.
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
  return [FIRST_LINE, ...lines, LAST_LINE, ''].join('\n')
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

/** A private key as it stands in its file. */
type PrivateKeyFile = {
  readonly type: string
  /** The public key in its wire form (RFC 4253, section 6.6). */
  readonly publicKey: Buffer
  /** Empty if the key is not of `KEY_TYPE`. */
  readonly comment: string
}

/** Parses a private key of any type. Returns undefined if it has a passphrase, or is not whole. */
export function parsePrivateKey(text: string): PrivateKeyFile | undefined {
  const [, base64 = ''] = new RegExp(`^${FIRST_LINE}\\s([\\w+/=\\s]+)${LAST_LINE}\\s*$`).exec(text) ?? []
  const file = Buffer.from(base64, 'base64')
  if (!file.subarray(0, MAGIC.length).equals(MAGIC)) return undefined
  try {
    return parseFields(new Fields(file.subarray(MAGIC.length)))
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

function parseFields(file: Fields): PrivateKeyFile | undefined {
  const [cipher, derivation] = [file.next().toString(), file.next().toString()]
  file.next()
  if (cipher !== 'none' || derivation !== 'none' || file.number() !== 1) return undefined
  const publicKey = file.next()
  const section = new Fields(file.next())
  if (section.number() !== section.number()) return undefined
  const type = section.next().toString()
  if (type !== KEY_TYPE) return { type, publicKey, comment: '' }
  const [publicPart, secret, comment] = [section.next(), section.next(), section.next()]
  const isWhole =
    publicKey.equals(Buffer.concat([field(KEY_TYPE), field(publicPart)])) &&
    secret.length === SECRET_BYTES &&
    secret.subarray(-PUBLIC_BYTES).equals(publicPart)
  return isWhole ? { type, publicKey, comment: comment.toString() } : undefined
}

/** An ed25519 public key, and a private key with its public key behind it (RFC 8032, section 5.1.5). */
const PUBLIC_BYTES = 32
const SECRET_BYTES = 64

/** Reads values of RFC 4251, section 5, in order. Throws RangeError behind the end. */
class Fields {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  number(): number {
    const value = this.#bytes.readUInt32BE(this.#at)
    this.#at += 4
    return value
  }

  next(): Buffer {
    const end = this.number() + this.#at
    if (end > this.#bytes.length) throw new RangeError('a field ends behind its end')
    const value = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return value
  }
}
