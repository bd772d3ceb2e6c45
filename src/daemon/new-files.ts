import { linkSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { flushPath } from '../store/database/schema-copies.ts'

type NewFile = {
  readonly path: string
  readonly content: string | Uint8Array
  /** Without what the umask of the process takes away. */
  readonly mode: number
}

/**
 * Writes files where none are. Each is there as a whole or not at all, also after a power failure; if one cannot be
 * written, none of them is there. Throws if another file has the name of one.
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
      // A rename would replace a file that came meanwhile.
      linkSync(unnamed(path), path)
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

const unnamed = (path: string): string => `${path}.part`
