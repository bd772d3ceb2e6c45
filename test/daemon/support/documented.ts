import assert from 'node:assert/strict'
import { Compile } from 'typebox/schema'
import { coordinationDocument, metricsDocument, openapiDocument } from '../../../tools/openapi-document.ts'
import type { Validator } from 'typebox/schema'

/** The parts of the OpenAPI document that are read here. */
export type OpenApi = {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components?: object
}
export type Operation = { readonly responses: Readonly<Record<string, Response>> }
type Response = { readonly content?: Readonly<Record<string, Media>> }
type Media = { readonly schema?: object; readonly examples?: Readonly<Record<string, unknown>> }

/** The API that an answer came from. */
export type ApiName = keyof typeof documents

const documents = {
  controller: openapiDocument,
  coordination: coordinationDocument,
  metrics: metricsDocument,
}

const loading = new Map<ApiName, Promise<OpenApi>>()

/** Reads a document as a client does. */
async function load(api: ApiName): Promise<OpenApi> {
  const document = await documents[api]()
  return JSON.parse(JSON.stringify(document)) as OpenApi
}

/** The parts of an answer that the document describes. */
export type Seen = {
  readonly method: string
  readonly path: string
  readonly status: number
  readonly mediaType: string | undefined
  /** Code of a problem. */
  readonly code?: string
  /** Body, if it is JSON. */
  readonly body?: unknown
}

/** Fails if a route answered with a status, a media type, a code or a member that its description does not contain. */
export async function assertDocumented(seen: Seen, api: ApiName = 'controller'): Promise<void> {
  const document = loading.get(api) ?? load(api)
  loading.set(api, document)
  const complaint = undocumented(await document, seen)
  assert.equal(complaint, undefined)
}

/** Says how this answer deviates from the document; undefined if it does not, or if there is no such route. */
export function undocumented(document: OpenApi, seen: Seen): string | undefined {
  const operation = operationAt(document, seen)
  if (operation === undefined) return undefined
  const what = `${seen.method} ${seen.path} answered ${seen.status}`
  const response = operation.responses[seen.status]
  if (response === undefined) return `${what}, which its description does not have`
  const mediaType = seen.mediaType?.split(';', 1)[0]
  if (mediaType === undefined) return undefined
  const media = response.content?.[mediaType]
  if (media === undefined) return `${what} as ${mediaType}, which its description does not have`
  if (seen.code !== undefined && !Object.hasOwn(media.examples ?? {}, seen.code))
    return `${what} with ${seen.code}, which its description does not have: name it in problems(…) of that route`
  const fault = seen.body === undefined ? undefined : faultOf(seen.body, media, document)
  return fault === undefined ? undefined : `${what} with a body that is not as described: ${fault}`
}

/** Clients accept members that they do not know; here each must be described. */
const closed = (schema: object): object =>
  JSON.parse(JSON.stringify(schema), (_key, value: unknown) =>
    isOpen(value) ? { ...value, additionalProperties: false } : value,
  ) as object

const isOpen = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && 'properties' in value && !('additionalProperties' in value)

const checkers = new WeakMap<Media, Validator>()

/** Checks the body as it was sent, because nothing removes undescribed members from answers. */
function faultOf(body: unknown, media: Media, { components }: OpenApi): string | undefined {
  // References point from the root.
  const checker = checkers.get(media) ?? Compile(closed({ ...media.schema, components }))
  checkers.set(media, checker)
  if (checker.Check(body)) return undefined
  const [, errors] = checker.Errors(body)
  return errors.map(({ instancePath, message }) => `${instancePath} ${message}`).join('; ')
}

function operationAt(document: OpenApi, { method, path }: Seen): Operation | undefined {
  const [plain = ''] = path.split('?', 1)
  const template = Object.keys(document.paths).find((candidate) =>
    new RegExp(`^${candidate.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(plain),
  )
  return template === undefined ? undefined : document.paths[template]?.[method.toLowerCase()]
}
