import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Checks } from '../../core/migration/frames.ts'

/** The checksums of a round's stream. */
export const streamChecks: Checks = { crc32, sha256: () => createHash('sha256') }
