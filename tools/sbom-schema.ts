import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { Ajv } from 'ajv'
import formats from 'ajv-formats'

const SCHEMAS = path.join(
  path.dirname(createRequire(import.meta.url).resolve('@cyclonedx/cyclonedx-library/package.json')),
  'res/schema',
)

const readSchema = (name: string): object =>
  JSON.parse(readFileSync(path.join(SCHEMAS, `${name}.SNAPSHOT.schema.json`), 'utf8')) as object

/** Returns what CycloneDX's own schema finds wrong with a list; nothing if it is right. */
export function schemaFaults(text: string): string[] {
  const ajv = new Ajv({ strict: false, allErrors: true })
  formats.default(ajv)
  // Formats that ajv-formats lacks; the list has no addresses of people, and few of the net.
  for (const name of ['idn-email', 'iri-reference']) ajv.addFormat(name, true)
  for (const name of ['spdx', 'jsf-0.82'])
    ajv.addSchema(readSchema(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`)
  const check = ajv.compile(readSchema('bom-1.6'))
  if (check(JSON.parse(text))) return []
  return (check.errors ?? []).map(({ instancePath, message }) => `${instancePath}: ${message}`)
}
