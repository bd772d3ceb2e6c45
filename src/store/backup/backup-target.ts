import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { readBackup } from './read-backup.ts'
import type { KeptFile } from './write-backup.ts'

type TargetOptions = {
  readonly stateDirectory: string
  /** The files of the host that the backup holds. */
  readonly files: readonly Pick<KeptFile, 'path'>[]
  /** Whether a file that is there may be replaced. */
  readonly replace: boolean
}

/**
 * Returns the path that a backup takes when it is written to `file`. A link stays, and the file that it names is
 * written: the link may lead to another disk. Throws an error for the operator if the backup would take the place of
 * records, of a file of this host or of a device, or of any file without `replace`.
 */
export function backupTarget(file: string, { stateDirectory, files, replace }: TargetOptions): string {
  const path = behindLinks(file)
  const isOwn = isInside(stateDirectory, path)
  if (isOwn && RECORDS.test(basename(path)))
    throw new Error(`${path} belongs to the records of this host: name another file`)
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return path
  if (found.isDirectory()) throw new Error(`${path} is a directory: name a file in it`)
  if (!found.isFile()) throw new Error(`${path} is not a regular file: name another one`)
  if (!replace) throw new Error(`${path} is there already: --replace replaces it`)
  const isKept = files.some((kept) => existsSync(kept.path) && realpathSync(kept.path) === path)
  if (isKept || (isOwn && !isBackup(path)))
    throw new Error(`${path} is a file of this host, and not a backup: name another file`)
  return path
}

/** The records of a state directory with their logs, and its lock. */
const RECORDS = /^(?:vmhostd|lock)\.db(?:-wal|-shm|-journal)?$/

/** As many links as Linux follows in one path (path_resolution(7)). */
const LINKS_MAX = 40

/** Follows links also to a file that is not there yet. */
function behindLinks(file: string): string {
  let next = resolve(file)
  for (let links = 0; links <= LINKS_MAX; links += 1) {
    const directory = dirname(next)
    if (!existsSync(directory)) throw new Error(`${directory} is not there: mount it, or make it`)
    const path = join(realpathSync(directory), basename(next))
    if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return path
    next = resolve(dirname(path), readlinkSync(path))
  }
  throw new Error(`${file} leads through too many links: name a file`)
}

const isInside = (directory: string, path: string): boolean =>
  existsSync(directory) && path.startsWith(`${realpathSync(directory)}/`)

function isBackup(path: string): boolean {
  try {
    return readBackup(path).about !== undefined
  } catch {
    return false
  }
}
