import { createBody } from './controller-host.ts'
import type { CreateVm } from '../../../src/client/api-client.ts'
import type { Answer } from './controller-host.ts'

/** An answer of the typed client; `json` has the type from the OpenAPI document, or is the problem of a refusal. */
export type Typed<T> = Pick<Answer, 'status' | 'text'> & {
  readonly headers: Readonly<Record<string, string>>
  readonly json: T
}

type Call<T> = Promise<{ readonly data?: T; readonly error?: unknown; readonly response: Response }>

/** Waits for a call of the typed client, whatever its answer is. */
export async function typed<T>(call: Call<T>): Promise<Typed<NonNullable<T>>> {
  const { data, error, response } = await call
  const json = (data ?? error) as NonNullable<T>
  const { status, headers } = response
  return { status, headers: Object.fromEntries(headers), json, text: JSON.stringify(json) ?? '' }
}

/** Replacements of members; undefined removes one. */
export type Changes = { readonly [K in keyof CreateVm]?: CreateVm[K] | undefined }

/** Returns a complete request for a VM, as the document describes it. */
export const vmRequest = (changes: Changes = {}): CreateVm =>
  // JSON omits undefined members.
  ({ ...createBody(), power: 'running', ...changes }) as CreateVm
