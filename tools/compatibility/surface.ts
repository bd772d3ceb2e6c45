/** Reads the surface: what a program can compare of the promise (docs/compatibility.md). A release keeps it. */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { configSchema } from '../../src/config/schema.ts'
import { openapiDocument } from '../openapi-document.ts'
import { compareDocuments } from './document.ts'
import { compareNames, namesOfToday } from './names.ts'
import { compareSchema } from './schema.ts'
import type { ApiDocument } from './document.ts'
import type { Names } from './names.ts'
import type { Pair, Schema } from './flat-schema.ts'

export type Surface = {
  readonly api: ApiDocument
  /** Schema of the configuration file. */
  readonly config: Schema
  readonly names: Names
}

/** The surface of the newest publication of `/v1`. It is not there before the first one. */
const PUBLISHED = path.join(import.meta.dirname, 'published.json')

/** Returns the surface of this checkout, without texts and examples, which are no part of a promise. */
export async function surfaceOfToday(): Promise<Surface> {
  const api = (await openapiDocument()) as ApiDocument
  return JSON.parse(
    JSON.stringify({ api, config: configSchema, names: namesOfToday() }, withoutTexts),
  ) as Surface
}

const withoutTexts = (key: string, value: unknown): unknown =>
  ['example', 'examples'].includes(key) || (key === 'description' && typeof value === 'string')
    ? undefined
    : value

/** Returns the published surface, or undefined before the first publication. */
export const publishedSurface = (): Surface | undefined =>
  existsSync(PUBLISHED) ? (JSON.parse(readFileSync(PUBLISHED, 'utf8')) as Surface) : undefined

/** Returns each change that breaks the promise, one sentence each. */
export const compareSurfaces = ({ published, today }: Pair<Surface>): string[] => [
  ...compareDocuments({ published: published.api, today: today.api }),
  ...compareSchema(
    { published: published.config, today: today.config },
    { side: 'request', schemas: { published: {}, today: {} }, where: 'the configuration' },
  ),
  ...compareNames({ published: published.names, today: today.names }),
]
