import { readFileSync } from 'node:fs'
import path from 'node:path'
import { runChecked } from '../tools/process.ts'
import type { CpioEntry } from './cpio.ts'

/**
 * Paths in the guest, as its init expects them, of the server and its key generator, with their paths in the lab's
 * root.
 */
const PROGRAMS = { 'sbin/dropbear': '/usr/sbin/dropbear', 'bin/dropbearkey': '/usr/bin/dropbearkey' }

/** Returns the demo guest's SSH server: Debian's Dropbear with its shared libraries, and the folders of its users. */
export async function sshServer(root: string): Promise<CpioEntry[]> {
  const libraries = await librariesOf(Object.values(PROGRAMS), root)
  const files = [...Object.entries(PROGRAMS), ...libraries.map((name) => [name.slice(1), name] as const)]
  const folders = ['etc/dropbear', 'home', ...files.flatMap(([target]) => foldersOf(target))]
  return [
    ...[...new Set(folders)].map((name): CpioEntry => ({ kind: 'folder', path: name })),
    ...files.map(([target, source]): CpioEntry => ({
      kind: 'file',
      path: target,
      mode: 0o755,
      content: readFileSync(path.join(root, source)),
    })),
  ]
}

/** Returns the paths that ldd(1) prints: `name => /path (0x…)`, and the loader, which has no name. */
async function librariesOf(programs: readonly string[], root: string): Promise<string[]> {
  const printed = await runChecked(['chroot', root, 'ldd', ...programs])
  const found = [...printed.matchAll(/(?<=\s)(\/\S+) \(0x/g)].map((match) => String(match[1]))
  const missing = /^\s*(\S+) => not found/m.exec(printed)?.[1]
  if (missing !== undefined) throw new Error(`the SSH server of the demo guest lacks ${missing}`)
  return [...new Set(found)]
}

/** Returns the folders above a file, outermost first. */
function foldersOf(file: string): string[] {
  const parts = file.split('/').slice(0, -1)
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'))
}
