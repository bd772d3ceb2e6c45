import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { checkout } from './paths.ts'

/** The folder of the npm package that has Node itself. */
export const NODE_PACKAGE = `node_modules/node-linux-${process.arch}`

/** A package whose files are in the executable. */
export type Embedded = {
  /** Its folder below the checkout. */
  readonly folder: string
  readonly name: string
  readonly version: string
  /** As the package says it, mostly an SPDX expression. */
  readonly licence: string
}

/** Returns the packages whose files are in a bundle, each version once, with Node itself as the first. */
export function embeddedPackages(inputs: readonly string[]): Embedded[] {
  const folders = inputs.flatMap(
    (input) =>
      /^(?:.*\/)?node_modules\/(@[^/]+\/)?[^/]+/.exec(
        path.relative(checkout, path.resolve(checkout, input)),
      )?.[0] ?? [],
  )
  const packages = [NODE_PACKAGE, ...[...new Set(folders)].toSorted()].map((folder) => {
    const text = readFileSync(path.join(checkout, folder, 'package.json'), 'utf8')
    const about = JSON.parse(text) as Record<string, unknown>
    const { name, version } = about
    return { folder, name: String(name), version: String(version), licence: licenceName(about) }
  })
  // npm may install one version in several places.
  const versions = Map.groupBy(packages, ({ name, version }) => `${name}@${version}`)
  return [...versions.values()].flatMap(([first]) => first ?? [])
}

/** Returns one text with the licences of everything in the executable: Node.js itself and the bundled packages. */
export function renderLicences(inputs: readonly string[]): string {
  const parts = embeddedPackages(inputs).map(({ folder, name, version, licence }) => {
    const heading = `${name} ${version} (${licence})`
    return `${heading}\n${'='.repeat(heading.length)}\n\n${licenceText(path.join(checkout, folder))}\n`
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
