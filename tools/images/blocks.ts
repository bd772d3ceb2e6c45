import { readFileSync } from 'node:fs'
import path from 'node:path'
import { checkout } from '../paths.ts'

const PAGE = path.join(checkout, 'docs', 'images.md')

/** A marked block: `<!-- tried: NAME -->`, then a fence that is indented as the marker is. */
const BLOCK = /^( *)<!-- tried: (.+) -->\n+\1```\w+\n([^]*?)\n\1```$/gm

/** Returns the marked blocks of a page by name, without their indentation. Throws if two have one name. */
export function blocksIn(page: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const [, indent = '', name = '', text = ''] of page.matchAll(BLOCK)) {
    if (found.has(name)) throw new Error(`two blocks are called ${name}`)
    const lines = text.split('\n').map((line) => line.slice(indent.length))
    found.set(name, `${lines.join('\n')}\n`)
  }
  return found
}

/** Reads the page about images; returns a function that joins blocks of it, in the given order. */
export function readBlocks(): (...names: readonly string[]) => string {
  const blocks = blocksIn(readFileSync(PAGE, 'utf8'))
  return (...names) =>
    names
      .map((name) => {
        const block = blocks.get(name)
        if (block === undefined) throw new Error(`${PAGE} has no block ${name}`)
        return block
      })
      .join('')
}
