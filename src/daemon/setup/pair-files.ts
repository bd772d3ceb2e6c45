import {
  closeSync,
  fchmodSync,
  fchownSync,
  lstatSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { flushPath } from '../../store/database/schema-copies.ts'
import { writeNewFiles } from '../new-files.ts'
import type { Flush } from '../../store/database/schema-copies.ts'
import type { CertificatePair } from './certificates.ts'

export type PairPaths = { readonly certificate: string; readonly key: string }

/** Returns the paths of a pair in a directory. */
export const pairIn = (directory: string, name: string): PairPaths => ({
  certificate: join(directory, `${name}.crt`),
  key: join(directory, `${name}.key`),
})

const KEY_MODE = 0o600
const CERTIFICATE_MODE = 0o644
/** The bits of a mode that say who may read and write (chmod(2)). */
const PERMISSIONS = 0o777

/** Writes the pair where none is, once both files are on the disk. Throws if one of them is there. */
export function writePair(paths: PairPaths, pair: CertificatePair): void {
  writeNewFiles([
    { path: paths.key, content: pair.key, mode: KEY_MODE },
    { path: paths.certificate, content: pair.certificate, mode: CERTIFICATE_MODE },
  ])
}

/**
 * Replaces the key and then the certificate by renames, once both are on the disk. The daemon uses the old pair until
 * both are there. A power failure between the renames leaves the new key with the old certificate: then renew all.
 * Owner, group and mode stay; a link stays too, and what it leads to is replaced. Throws an error for the operator if a
 * link leads to nothing.
 */
export function replacePair(paths: PairPaths, pair: CertificatePair, sync: Flush = flushPath): void {
  const files = { key: targetOf(paths.key), certificate: targetOf(paths.certificate) }
  const next = { key: `${files.key}.new`, certificate: `${files.certificate}.new` }
  for (const path of [next.key, next.certificate]) rmSync(path, { force: true })
  writeNew(next.key, pair.key, { mode: KEY_MODE, like: files.key, sync })
  writeNew(next.certificate, pair.certificate, { mode: CERTIFICATE_MODE, like: files.certificate, sync })
  renameSync(next.key, files.key)
  renameSync(next.certificate, files.certificate)
  syncDirectories(files, sync)
}

/** Returns the file that a path leads to; the path itself if nothing is there. */
function targetOf(path: string): string {
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return path
  try {
    return realpathSync(path)
  } catch (cause) {
    throw new Error(`${path} is a link to nothing: bring back its file, or remove it, and run this again`, {
      cause,
    })
  }
}

/** Writes a file where none is. It is given owner, group and mode of the file `like`, if that is there. */
function writeNew(
  path: string,
  text: string,
  { mode, like, sync }: { mode: number; like: string; sync: Flush },
): void {
  const old = statSync(like, { throwIfNoEntry: false })
  const file = openSync(path, 'wx', old === undefined ? mode : KEY_MODE)
  try {
    writeFileSync(file, text)
    if (old !== undefined) {
      fchownSync(file, old.uid, old.gid)
      fchmodSync(file, old.mode & PERMISSIONS)
    }
  } finally {
    closeSync(file)
  }
  sync(path)
}

function syncDirectories({ key, certificate }: PairPaths, sync: Flush): void {
  for (const directory of new Set([dirname(key), dirname(certificate)])) sync(directory)
}
