import { createHash } from 'node:crypto'
import type { HostKeyFingerprint } from '../../ports/guest-shells.ts'

/**
 * Computes the fingerprint of a public key in its wire form (RFC 4253, section 6.6), as OpenSSH prints it: unpadded
 * base64 of its SHA-256.
 */
export const fingerprintOf = (key: Uint8Array): HostKeyFingerprint =>
  `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`
