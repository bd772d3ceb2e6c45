import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { CertificatePair } from './certificates.ts'

export type PairPaths = { readonly certificate: string; readonly key: string }

/** Makes the content of a file, or the names in a directory, last through a power failure (fsync(2)). */
export type Sync = (path: string) => void

const KEY_MODE = 0o600
const CERTIFICATE_MODE = 0o644

/** Writes the pair where none is. The certificate is written once the key is on the disk. Throws if one of them is there. */
export function writePair(paths: PairPaths, pair: CertificatePair): void {
  writeNew(paths.key, pair.key, { mode: KEY_MODE, sync: syncPath })
  writeNew(paths.certificate, pair.certificate, { mode: CERTIFICATE_MODE, sync: syncPath })
  syncDirectories(paths, syncPath)
}

/**
 * Replaces the key and then the certificate by renames, once both are on the disk. The daemon uses the old pair until both
 * are there. A power failure between the renames leaves the new key with the old certificate: then renew again.
 */
export function replacePair(paths: PairPaths, pair: CertificatePair, sync: Sync = syncPath): void {
  const next = { key: `${paths.key}.new`, certificate: `${paths.certificate}.new` }
  for (const path of [next.key, next.certificate]) rmSync(path, { force: true })
  writeNew(next.key, pair.key, { mode: KEY_MODE, sync })
  writeNew(next.certificate, pair.certificate, { mode: CERTIFICATE_MODE, sync })
  renameSync(next.key, paths.key)
  renameSync(next.certificate, paths.certificate)
  syncDirectories(paths, sync)
}

function writeNew(path: string, text: string, { mode, sync }: { mode: number; sync: Sync }): void {
  writeFileSync(path, text, { flag: 'wx', mode })
  sync(path)
}

function syncDirectories({ key, certificate }: PairPaths, sync: Sync): void {
  for (const directory of new Set([dirname(key), dirname(certificate)])) sync(directory)
}

function syncPath(path: string): void {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
