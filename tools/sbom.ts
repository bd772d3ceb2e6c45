/** Lists what is in the executable, as CycloneDX 1.6 (cyclonedx.org): a software bill of materials. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { Enums, Models, Serialize, Spec, SPDX } from '@cyclonedx/cyclonedx-library'
import type { BuildInfo } from './bundle.ts'
import { embeddedPackages, NODE_PACKAGE } from './licences.ts'
import type { Embedded } from './licences.ts'
import { checkout } from './paths.ts'

export type SbomOptions = BuildInfo & { readonly date: Date }

const { Component, ComponentRepository, ExternalReference } = Models
const { ComponentType, HashAlgorithm } = Enums

/** Names in `process.versions` that are not libraries inside Node. */
const NOT_LIBRARIES: readonly string[] = ['node', 'modules', 'napi']

/** Renders the list for an executable that is bundled from these files. Equal inputs give an equal text. */
export function renderSbom(inputs: readonly string[], { version, commit, date }: SbomOptions): string {
  const integrities = readIntegrities()
  const components = embeddedPackages(inputs).map((embedded) => componentOf(embedded, integrities))
  const product = new Component(ComponentType.Application, 'vmhostd', {
    bomRef: 'vmhostd',
    version,
    description: `commit ${commit}, ${process.platform} ${process.arch}`,
    purl: `pkg:generic/vmhostd@${encodeURIComponent(version)}`,
    licenses: licences('Apache-2.0'),
  })
  for (const { bomRef } of components) product.dependencies.add(bomRef)
  const bom = new Models.Bom({
    metadata: new Models.Metadata({ timestamp: date, component: product }),
    components: new ComponentRepository(components),
  })
  const factory = new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6)
  const text = new Serialize.JsonSerializer(factory).serialize(bom, { sortLists: true, space: 2 })
  return `${text}\n`
}

type Integrities = Readonly<Record<string, { readonly integrity?: string }>>

const readIntegrities = (): Integrities =>
  (JSON.parse(readFileSync(path.join(checkout, 'package-lock.json'), 'utf8')) as { packages: Integrities })
    .packages

function componentOf(
  { folder, name, version, licence }: Embedded,
  integrities: Integrities,
): Models.Component {
  const isNode = folder === NODE_PACKAGE
  const purl = `pkg:npm/${name.split('/').map(encodeURIComponent).join('/')}@${encodeURIComponent(version)}`
  const component = new Component(isNode ? ComponentType.Platform : ComponentType.Library, name, {
    bomRef: purl,
    version,
    purl,
    licenses: licences(licence),
    hashes: new Models.HashDictionary(hashesOf(integrities[folder]?.integrity)),
    ...(isNode ? { components: new ComponentRepository(librariesOfNode()) } : {}),
  })
  if (isNode)
    component.externalReferences.add(
      new ExternalReference('https://nodejs.org', Enums.ExternalReferenceType.Website),
    )
  return component
}

/** Returns the libraries that Node is linked with, by its own account. */
const librariesOfNode = (): Models.Component[] =>
  Object.entries(process.versions)
    .filter(([name, version]) => !NOT_LIBRARIES.includes(name) && version !== '')
    .map(([name, version = '']) => {
      const purl = `pkg:generic/${name}@${encodeURIComponent(version)}`
      return new Component(ComponentType.Library, name, { bomRef: `node/${name}`, version, purl })
    })

/** Turns an integrity of npm's lock file into a hash: base64 into hexadecimal digits. */
function hashesOf(integrity = ''): [Enums.HashAlgorithm, string][] {
  const [, sum] = /^sha512-(.+)$/.exec(integrity) ?? []
  return sum === undefined ? [] : [[HashAlgorithm['SHA-512'], Buffer.from(sum, 'base64').toString('hex')]]
}

function licences(name: string): Models.LicenseRepository {
  if (SPDX.isSupportedSpdxId(name)) return new Models.LicenseRepository([new Models.SpdxLicense(name)])
  const expression = / (?:OR|AND|WITH) /.test(name)
  return new Models.LicenseRepository([
    expression ? new Models.LicenseExpression(name) : new Models.NamedLicense(name),
  ])
}
