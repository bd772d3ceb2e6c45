/** The files of a package while it is made. Equal contents give an equal package: nothing here looks at the clock. */
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'

export function install(source: string, tree: string, place: string, mode = 0o644): void {
  const target = prepare(tree, place)
  copyFileSync(source, target)
  chmodSync(target, mode)
}

export function installText(text: string | Buffer, tree: string, place: string): void {
  const target = prepare(tree, place)
  writeFileSync(target, text)
  chmodSync(target, 0o644)
}

/** Installs a text compressed as Debian's policy wants it (12.1, 12.3). Node writes neither a name nor a time. */
export const installCompressed = (text: string, tree: string, place: string): void =>
  installText(gzipSync(text, { level: 9 }), tree, `${place}.gz`)

function prepare(tree: string, place: string): string {
  const target = path.join(tree, place)
  mkdirSync(path.dirname(target), { recursive: true })
  return target
}

const entriesOf = (tree: string): string[] =>
  readdirSync(tree, { recursive: true, encoding: 'utf8' }).toSorted()

/** Renders the sums of all installed files, which `dpkg --verify` compares: deb-md5sums(5). */
export function renderSums(tree: string): string {
  const files = entriesOf(tree).filter(
    (name) => !name.startsWith('DEBIAN') && lstatSync(path.join(tree, name)).isFile(),
  )
  return files
    .map(
      (name) =>
        `${createHash('md5')
          .update(readFileSync(path.join(tree, name)))
          .digest('hex')}  ${name}\n`,
    )
    .join('')
}

/** Returns the installed size in KiB, as deb-substvars(5) has it: files rounded up, and one for each other entry. */
export function installedKib(tree: string): number {
  const sizes = entriesOf(tree)
    .filter((name) => !name.startsWith('DEBIAN'))
    .map((name) => {
      const stat = lstatSync(path.join(tree, name))
      return stat.isFile() ? Math.ceil(stat.size / 1024) : 1
    })
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** Gives all files and folders one time, and the folders one mode. */
export function settle(tree: string, time: Date): void {
  for (const name of entriesOf(tree)) {
    const place = path.join(tree, name)
    if (lstatSync(place).isDirectory()) chmodSync(place, 0o755)
    lutimesSync(place, time, time)
  }
}
