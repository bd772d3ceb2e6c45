import * as fs from 'node:fs/promises'
import { GatedFile } from './gated-file.ts'
import { ifThere } from './storage-fault.ts'
import type { FileGate } from './gated-file.ts'

/** The functions of node:fs/promises that make at most one system call at a time. */
type Plain = Pick<
  typeof fs,
  | 'chmod'
  | 'chown'
  | 'copyFile'
  | 'link'
  | 'lstat'
  | 'mkdir'
  | 'readdir'
  | 'readFile'
  | 'readlink'
  | 'realpath'
  | 'rename'
  | 'rmdir'
  | 'stat'
  | 'statfs'
  | 'symlink'
  | 'truncate'
  | 'unlink'
  | 'writeFile'
>

/**
 * The same functions, each call taking one place of a gate. All of them throw NoAnswer in addition to Node's errors.
 */
export type GatedFiles = Plain & {
  readonly open: (path: string, flags: string | number, mode?: number) => Promise<GatedFile>
  /**
   * Renames if `may` allows it, and returns whether it did. `may` is asked when the call has its place, because it may
   * have waited long for that.
   */
  readonly renameIf: (from: string, to: string, may: () => boolean) => Promise<boolean>
  /** Removes a name; does nothing if there is none. */
  readonly removeFile: (path: string) => Promise<void>
  /** Removes a name and everything below it, even if something else removes it too; does nothing if there is none. */
  readonly removeTree: (path: string) => Promise<void>
}

export function gatedFiles(gate: FileGate): GatedFiles {
  const plain: Plain = {
    chmod: gated(gate, 'chmod'),
    chown: gated(gate, 'chown'),
    copyFile: (from, to, mode) => copyFile(gate, { from: String(from), to: String(to), mode }),
    link: gated(gate, 'link', 2),
    lstat: gated(gate, 'lstat'),
    mkdir: gated(gate, 'mkdir'),
    readdir: gated(gate, 'readdir'),
    readFile: gated(gate, 'readFile'),
    readlink: gated(gate, 'readlink'),
    realpath: gated(gate, 'realpath'),
    rename: gated(gate, 'rename', 2),
    rmdir: gated(gate, 'rmdir'),
    stat: gated(gate, 'stat'),
    statfs: gated(gate, 'statfs'),
    symlink: gated(gate, 'symlink', 2),
    truncate: gated(gate, 'truncate'),
    unlink: gated(gate, 'unlink'),
    writeFile: gated(gate, 'writeFile'),
  }
  return {
    ...plain,
    open: (path, flags, mode) => GatedFile.open(gate, path, flags, mode),
    renameIf: (from, to, may) =>
      gate.calls.take(async () => may() && fs.rename(from, to).then(() => true), { about: [from, to] }),
    removeFile: (path) => removeFile(plain, path),
    removeTree: (path) => removeTree(plain, path),
  }
}

/** @param paths how many arguments, from the first on, are paths that the call is about */
function gated<N extends keyof Plain>(gate: FileGate, name: N, paths = 1): Plain[N] {
  const call = (...args: unknown[]): Promise<unknown> =>
    (fs[name] as (...args: unknown[]) => Promise<unknown>)(...args)
  const take = (...args: unknown[]): Promise<unknown> =>
    gate.calls.take(() => call(...args), { about: args.slice(0, paths).map(String) })
  return take as Plain[N]
}

type Copying = { readonly from: string; readonly to: string; readonly mode: number | undefined }

/**
 * Copies a file. A copy to a new name that was given up is removed when it ends, because its caller cannot see that.
 */
async function copyFile(gate: FileGate, { from, to, mode = 0 }: Copying): Promise<void> {
  const isNew = (mode & fs.constants.COPYFILE_EXCL) !== 0
  let isWanted = true
  const copying = async (): Promise<void> => {
    await fs.copyFile(from, to, mode)
    if (!isWanted && isNew) await fs.unlink(to)
  }
  try {
    await gate.calls.take(copying, { about: [from, to] })
  } finally {
    isWanted = false
  }
}

/** Makes one call after another. Node's `rm` makes as many at once as a directory has entries. */
async function removeTree(files: Plain, path: string): Promise<void> {
  // The name is looked up first, because a read-only file system refuses to remove even a name that does not exist.
  const found = await ifThere(files.lstat(path))
  if (found === undefined) return
  if (!found.isDirectory()) {
    await ifThere(files.unlink(path))
    return
  }
  for (const name of (await ifThere(files.readdir(path))) ?? []) await removeTree(files, `${path}/${name}`)
  await ifThere(files.rmdir(path))
}

async function removeFile(files: Plain, path: string): Promise<void> {
  if ((await ifThere(files.lstat(path))) !== undefined) await ifThere(files.unlink(path))
}
