/*
 * `./dev types`: makes the types of the client from the OpenAPI document. Types, tests and bundles call it by
 * themselves.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { hashInputs } from './hash.ts'
import { checkout } from './paths.ts'
import { step } from './step.ts'

const TARGET = path.join(checkout, 'src/client/schema.d.ts')

/** Sources of the document, and the generator of its types. */
const INPUTS = [
  'src/api',
  'src/commands',
  'src/config',
  'src/core',
  'src/lib',
  'package.json',
  'package-lock.json',
  'tools/openapi-document.ts',
  'tools/client-types.ts',
]

/** Makes the types again if one of their sources has changed. */
export async function ensureClientTypes(): Promise<void> {
  const key = hashInputs(INPUTS.map((input) => path.join(checkout, input)))
  const firstLine = `// Made by ./dev types from the OpenAPI document of the controller API. Inputs: ${key}`
  if (existsSync(TARGET) && readFileSync(TARGET, 'utf8').startsWith(`${firstLine}\n`)) return
  await step('make the types of the client (src/client/schema.d.ts)', async () => {
    const aside = `${TARGET}.${process.pid}.new`
    writeFileSync(aside, `${firstLine}\n${await generate()}`)
    renameSync(aside, TARGET)
  })
}

/** Loads its libraries only here: most of the time there is nothing to make. */
async function generate(): Promise<string> {
  const { openapiDocument } = await import('./openapi-document.ts')
  const { default: openapiTs, astToString } = await import('openapi-typescript')
  const document = JSON.stringify(await openapiDocument())
  // A member with a default may be left out of a request.
  return astToString(await openapiTs(document, { defaultNonNullable: false })) + (await codeTypes())
}

/** The document names codes in examples alone, because an answer may get further ones. */
async function codeTypes(): Promise<string> {
  const { faults, rejections } = await import('../src/core/problems/catalogue.ts')
  const union = (entries: object): string =>
    Object.keys(entries)
      .map((code) => `'${code}'`)
      .join(' | ')
  return `
/** A code of a fault, as this version knows them; a newer daemon may have further ones. */
export type FaultCode = ${union(faults)}
/** A code of a problem, as this version knows them; a newer daemon may have further ones. */
export type ProblemCode = FaultCode | ${union(rejections)}
`
}

/** Returns the exit status. */
export async function main(): Promise<number> {
  await ensureClientTypes()
  return 0
}
