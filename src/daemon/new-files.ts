import { closeSync, linkSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { hasErrno } from '../host/ffi/errno-error.ts'
import { flushPath } from '../store/database/schema-copies.ts'

type NewFile = {
  readonly path: string
  readonly content: string | Uint8Array
  /** Without what the umask of the process takes away. */
  readonly mode: number
}

/**
 * Writes files where none are. Each is there as a whole or not at all, also after a power failure; if one cannot be
 * written, none of them is there. Throws if another file has the name of one. On a file system without links, such as
 * FAT, a file of no bytes may have such a name for a moment, and keeps it if this process or the power ends then.
 */
export function writeNewFiles(files: readonly NewFile[]): void {
  const named: string[] = []
  try {
    for (const { path, content, mode } of files) {
      rmSync(unnamed(path), { force: true })
      writeFileSync(unnamed(path), content, { flag: 'wx', mode })
      flushPath(unnamed(path))
    }
    for (const { path } of files) {
      nameNew(unnamed(path), path)
      named.push(path)
    }
  } catch (error) {
    for (const path of named) rmSync(path, { force: true })
    throw error
  } finally {
    for (const { path } of files) rmSync(unnamed(path), { force: true })
  }
  for (const directory of new Set(files.map(({ path }) => dirname(path)))) flushPath(directory)
}

/** Names a whole file. Throws EEXIST if another file has that name. */
function nameNew(from: string, to: string): void {
  try {
    // A rename would replace a file that came meanwhile.
    linkSync(from, to)
  } catch (error) {
    // A file system without links refuses them with the first one (link(2)),
    // one of a network or of FUSE with the others.
    if (!hasErrno(error, 'EPERM', 'ENOTSUP', 'ENOSYS')) throw error
    renameToNew(from, to)
  }
}

/** Takes the name with an empty file, which the rename then replaces: it replaces no other file. */
function renameToNew(from: string, to: string): void {
  closeSync(openSync(to, 'wx'))
  try {
    renameSync(from, to)
  } catch (error) {
    rmSync(to, { force: true })
    throw error
  }
}

const unnamed = (path: string): string => `${path}.part`
