import createOpenapiClient, { defaultPathSerializer } from 'openapi-fetch'
import { ApiProblem, isProblem, UnexpectedAnswer } from './api-problem.ts'
import { daemonUrl } from './connection.ts'
import { createHttpsFetch } from './https-fetch.ts'
import { pathPart } from './path-part.ts'
import type { Client, Middleware, PathSerializer } from 'openapi-fetch'
import type { Connection } from './connection.ts'
import type { components, paths } from './schema.d.ts'

export type Vm = components['schemas']['Vm']
export type CreateVm = components['schemas']['CreateVm']
export type Snapshot = components['schemas']['Snapshot']
export type Image = components['schemas']['Image']

/** The controller API, typed by its own OpenAPI document. */
export type ApiClient = Client<paths> & {
  /** Closes the kept connections. */
  close(): void
}

/**
 * Throws a TypeError if the URL is not an address of a daemon, and node:tls's error if certificate and key do not match
 * or are not PEM. Sends nothing yet.
 */
export function createApiClient(connection: Connection): ApiClient {
  daemonUrl(connection.url)
  const fetch = createHttpsFetch(connection)
  const client = createOpenapiClient<paths>({ baseUrl: connection.url, fetch, pathSerializer })
  client.use(texts)
  return Object.assign(client, { close: () => fetch.close() })
}

/** Throws ImpossibleId where openapi-fetch would send the request to another route. */
const pathSerializer: PathSerializer = (pathname, parameters) => {
  for (const value of Object.values(parameters)) pathPart(String(value))
  return defaultPathSerializer(pathname, parameters)
}

type AnswersText = {
  readonly get: {
    readonly responses: { readonly 200: { readonly content: { readonly 'text/plain': string } } }
  }
}
type TextPath = { [P in keyof paths]: paths[P] extends AnswersText ? P : never }[keyof paths]

/** The routes that answer plain text. */
const TEXT_PATHS: Readonly<Record<TextPath, true>> = { '/v1/vms/{id}/console/log': true, '/metrics': true }

/**
 * Makes a text the JSON of the same string: openapi-fetch parses each successful answer as JSON, unless the caller says
 * otherwise with `parseAs`.
 */
const texts: Middleware = {
  onResponse: async ({ schemaPath, request, response, options }) => {
    const isText = Object.hasOwn(TEXT_PATHS, schemaPath) && request.method === 'GET'
    if (!isText || !response.ok || options.parseAs !== 'json') return undefined
    if (!/^text\/plain\s*(?:;|$)/i.test(response.headers.get('content-type') ?? ''))
      throw new UnexpectedAnswer(response.status)
    const headers = new Headers(response.headers)
    headers.delete('content-length')
    return new Response(JSON.stringify(await response.text()), { status: response.status, headers })
  },
}

/** A successful answer. */
export type Answered<T> = {
  readonly data: T
  readonly status: number
  /** For `If-Match` and `If-None-Match`; empty if the resource has none. */
  readonly etag: string
}

type Call<T> = Promise<{
  readonly data?: T | undefined
  readonly error?: unknown
  readonly response: Response
}>

/** Waits for a call whose successful answer has no body. Throws as {@link answered}. */
export async function done(
  call: Promise<{ readonly error?: unknown; readonly response: Response }>,
): Promise<void> {
  const { error, response } = await call.catch(asUnexpected)
  if (isProblem(error)) throw new ApiProblem(error, response.headers.get('retry-after'))
  if (!response.ok) throw new UnexpectedAnswer(response.status)
}

/**
 * Waits for a call of the client and returns its data. Throws {@link ApiProblem} if the daemon refused, {@link
 * UnexpectedAnswer} if the answer is not from vmhostd or is empty (204), and ConnectionFailed if none came. The answer
 * to a deletion may be empty: use {@link answeredUnlessEmpty}.
 */
export async function answered<T>(call: Call<T>): Promise<Answered<NonNullable<T>>> {
  const answer = await answeredUnlessUnchanged(call)
  if (answer === undefined) throw new UnexpectedAnswer(304)
  return answer
}

/** Like {@link answered}, for an answer that may have no body; `data` is undefined then. */
export async function answeredUnlessEmpty<T>(
  call: Call<T>,
): Promise<{ readonly data?: NonNullable<T>; readonly status: number; readonly etag: string }> {
  const answer = await call.catch(asUnexpected)
  return answer.response.status === 204 ? { status: 204, etag: '' } : answered(Promise.resolve(answer))
}

/** Like {@link answered}, for a request with `If-None-Match`: returns undefined if the resource is unchanged. */
export async function answeredUnlessUnchanged<T>(
  call: Call<T>,
): Promise<Answered<NonNullable<T>> | undefined> {
  const { data, error, response } = await call.catch(asUnexpected)
  if (response.status === 304) return undefined
  if (isProblem(error)) throw new ApiProblem(error, response.headers.get('retry-after'))
  if (!response.ok || data === undefined || data === null) throw new UnexpectedAnswer(response.status)
  return { data, status: response.status, etag: response.headers.get('etag') ?? '' }
}

/** Handles a failure to parse: the page of another server is not JSON. */
function asUnexpected(error: unknown): never {
  throw error instanceof SyntaxError ? new UnexpectedAnswer(200) : error
}
