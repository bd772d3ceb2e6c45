import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { checkout } from './paths.ts'

const KEY_LENGTH = 16

/**
 * Returns a short key for files and words: equal content and names give an equal key. Walks folders, without tests and
 * generated types.
 */
export function hashInputs(files: readonly string[], words: readonly string[] = []): string {
  const hash = createHash('sha256')
  for (const word of words) hash.update(`word ${word.length} ${word}\n`)
  for (const file of files.flatMap(walk)) {
    const content = readFileSync(file)
    hash.update(`file ${path.relative(checkout, file)} ${content.length}\n`).update(content)
  }
  return hash.digest('hex').slice(0, KEY_LENGTH)
}

function walk(entry: string): string[] {
  if (!statSync(entry).isDirectory()) return [entry]
  return readdirSync(entry)
    .toSorted()
    .filter((name) => !name.endsWith('.test.ts') && !name.endsWith('.d.ts'))
    .flatMap((name) => walk(path.join(entry, name)))
}
