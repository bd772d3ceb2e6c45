import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { checkout } from './paths.ts'

/** Returns the packages whose files are in a bundle, by their folders below node_modules. */
function packagesOf(inputs: readonly string[]): string[] {
  const folders = inputs.flatMap((input) => /^(?:.*\/)?node_modules\/(@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? [])
  return [...new Set(folders)].toSorted()
}

/** Returns one text with the licences of everything in the executable: Node.js itself and the bundled packages. */
export function renderLicences(inputs: readonly string[]): string {
  const folders = [`node_modules/node-linux-${process.arch}`, ...packagesOf(inputs)]
  const parts = folders.map((folder) => {
    const place = path.resolve(checkout, folder)
    const about = JSON.parse(readFileSync(path.join(place, 'package.json'), 'utf8')) as Record<
      string,
      unknown
    >
    const heading = `${String(about['name'])} ${String(about['version'])} (${licenceName(about)})`
    return `${heading}\n${'='.repeat(heading.length)}\n\n${licenceText(place)}\n`
  })
  return parts.join('\n')
}

/** Some packages still use the format before npm 2: a list of objects. */
function licenceName({ license, licenses }: Record<string, unknown>): string {
  if (typeof license === 'string') return license
  const named = Array.isArray(licenses) ? (licenses as { type?: string }[]).map(({ type }) => type) : []
  return named.length === 0 ? 'licence not named' : named.join(' or ')
}

function licenceText(folder: string): string {
  if (!existsSync(folder)) return ''
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name))
  return file === undefined
    ? '(no text shipped with the package)'
    : readFileSync(path.join(folder, file), 'utf8').trim()
}
