import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { checkout } from '../paths.ts'

/** The documents for operators; what they link to is shipped with them. */
const OPERATORS = [
  'operating',
  'vmhostctl',
  'errors',
  'certificates',
  'firecracker',
  'glossary',
  'metrics',
  'migrate',
  'sandbox',
  'wake',
]

/** Returns the documents of the package with all that they link to, by their paths below `docs`. */
export function operatorsDocuments(): string[] {
  const found = new Set<string>()
  const left = OPERATORS.map((name) => `${name}.md`)
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (found.has(name)) continue
    found.add(name)
    left.push(...linksOf(name))
  }
  return [...found].toSorted()
}

/** Throws if a document links to a file that no package can have. */
function linksOf(name: string): string[] {
  const text = readFileSync(documentPath(name), 'utf8')
  const targets = [...text.matchAll(/\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)/g)].map(([, target = '']) =>
    path.join(path.dirname(name), target),
  )
  for (const target of targets)
    if (target.startsWith('..') || !target.endsWith('.md') || !existsSync(documentPath(target)))
      throw new Error(
        `docs/${name} is shipped in the package, and links to ${target}, which is not a document`,
      )
  return targets
}

export const documentPath = (name: string): string => path.join(checkout, 'docs', name)
