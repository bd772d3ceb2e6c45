import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { checkout } from './paths.ts'
import { renderSbom } from './sbom.ts'
import { schemaFaults } from './sbom-schema.ts'

const about = { version: '1.2.3', commit: '0123456789ab', date: new Date('2026-11-23T12:00:00Z') }
const inputs = [
  'src/main.ts',
  'node_modules/ws/lib/websocket.js',
  'node_modules/@fastify/swagger/index.js',
  'node_modules/ws/index.js',
  // A second version of a package, inside another.
  'node_modules/tsyringe/node_modules/tslib/tslib.es6.js',
]

type Component = {
  readonly name: string
  readonly version: string
  readonly purl: string
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[]
  readonly components?: readonly Component[]
}

type Sbom = {
  readonly metadata: { readonly timestamp: string; readonly component: Component }
  readonly components: readonly Component[]
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn?: readonly string[] }[]
}

const read = (): Sbom => JSON.parse(renderSbom(inputs, about)) as Sbom

test('the list follows the schema of CycloneDX', () => {
  assert.deepEqual(schemaFaults(renderSbom(inputs, about)), [])
})

test('a list that does not follow the schema is noticed', () => {
  const { components, ...rest } = read()
  const broken = { ...rest, components: components.map(({ version }) => ({ type: 'library', version })) }
  assert.match(schemaFaults(JSON.stringify(broken)).join(), /required property 'name'/)
})

test('each bundled package is in the list once, with the sum of what npm installed', () => {
  const { components } = read()
  const packages = components.filter(({ name }) => !name.startsWith('node-linux'))
  assert.deepEqual(
    packages.map(({ purl }) => purl.replace(/@[\d.]+$/, '')),
    ['pkg:npm/%40fastify/swagger', 'pkg:npm/tslib', 'pkg:npm/ws'],
  )
  for (const { hashes } of packages) assert.match(hashes?.[0]?.content ?? '', /^[0-9a-f]{128}$/)
})

test('a version that is installed in two places is in the list once', () => {
  const { packages } = JSON.parse(readFileSync(path.join(checkout, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly version?: string; readonly optional?: true }>>
  }
  const folders = Map.groupBy(
    Object.keys(packages).filter((folder) => folder !== '' && packages[folder]?.optional !== true),
    (folder) => `${folder.split('node_modules/').at(-1)}@${packages[folder]?.version}`,
  )
  const [twice = []] = [...folders.values()].filter(({ length }) => length > 1)
  assert.ok(twice.length > 1)
  const list = () =>
    renderSbom(
      twice.map((folder) => `${folder}/index.js`),
      about,
    )
  assert.equal((JSON.parse(list()) as Sbom).components.length, 2)
  assert.equal(list(), list())
})

test('Node is in the list with the libraries that it is linked with', () => {
  const node = read().components.find(({ name }) => name === `node-linux-${process.arch}`)
  assert.equal(node?.version, process.versions.node)
  const libraries = new Map(node?.components?.map(({ name, version }) => [name, version]))
  for (const name of ['openssl', 'zlib', 'zstd', 'sqlite', 'v8'] as const)
    assert.equal(libraries.get(name), process.versions[name], name)
})

test('the executable depends on all of them, and bears the time of its sources', () => {
  const { metadata, components, dependencies } = read()
  assert.equal(metadata.timestamp, '2026-11-23T12:00:00.000Z')
  const own = dependencies.find(({ ref }) => ref === 'vmhostd')
  assert.deepEqual(own?.dependsOn?.toSorted(), components.map(({ purl }) => purl).toSorted())
})
