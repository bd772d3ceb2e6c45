import { randomBytes } from 'node:crypto'
import type { KeyObject } from 'node:crypto'

const KEY_TYPE = 'ssh-ed25519'
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
