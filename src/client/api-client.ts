import createOpenapiClient from 'openapi-fetch'
import { ApiProblem, isProblem, UnexpectedAnswer } from './api-problem.ts'
import { createHttpsFetch } from './https-fetch.ts'
import type { Client } from 'openapi-fetch'
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

/** Throws node:tls's error where certificate and key are no pair or no PEM. Nothing is sent yet. */
export function createApiClient(connection: Connection): ApiClient {
  const fetch = createHttpsFetch(connection)
  const client = createOpenapiClient<paths>({ baseUrl: connection.url, fetch })
  return Object.assign(client, { close: () => fetch.close() })
}

/** An answer that is no error. */
export type Answered<T> = {
  readonly data: T
  readonly status: number
  /** For `If-Match` and `If-None-Match`; empty where the resource has none. */
  readonly etag: string
}

type Call<T> = Promise<{ readonly data?: T; readonly error?: unknown; readonly response: Response }>

/** Waits for a call whose good answer has no body. Throws as {@link answered}. */
export async function done(
  call: Promise<{ readonly error?: unknown; readonly response: Response }>,
): Promise<void> {
  const { error, response } = await call
  if (isProblem(error)) throw new ApiProblem(error)
  if (!response.ok) throw new UnexpectedAnswer(response.status)
}

/**
 * Waits for a call of the client and answers its data. Throws {@link ApiProblem} where the daemon refused and
 * {@link UnexpectedAnswer} where what answered is no vmhostd; ConnectionFailed comes through.
 */
export async function answered<T>(call: Call<T>): Promise<Answered<NonNullable<T>>> {
  const answer = await answeredUnlessUnchanged(call)
  if (answer === undefined) throw new UnexpectedAnswer(304)
  return answer
}

/** As {@link answered}, for a request with `If-None-Match`: undefined where the resource is still what it was. */
export async function answeredUnlessUnchanged<T>(
  call: Call<T>,
): Promise<Answered<NonNullable<T>> | undefined> {
  const { data, error, response } = await call.catch(asUnexpected)
  if (response.status === 304) return undefined
  if (isProblem(error)) throw new ApiProblem(error)
  if (!response.ok || data === undefined || data === null) throw new UnexpectedAnswer(response.status)
  return { data, status: response.status, etag: response.headers.get('etag') ?? '' }
}

/** openapi-fetch parses every good answer as JSON; a page of something else is none. */
function asUnexpected(error: unknown): never {
  throw error instanceof SyntaxError ? new UnexpectedAnswer(200) : error
}
