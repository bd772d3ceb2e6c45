import { createBody } from './controller-host.ts'
import type { CreateVm } from '../../../src/client/api-client.ts'
import type { Answer } from './controller-host.ts'

/** An answer of the typed client; `json` is what the OpenAPI document says it is, or the problem where it is refused. */
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

/** Replacements of members; undefined takes one away. */
export type Changes = { readonly [K in keyof CreateVm]?: CreateVm[K] | undefined }

/** A complete request for a VM, as the document has it. */
export const vmRequest = (changes: Changes = {}): CreateVm =>
  // JSON leaves out what is undefined.
  ({ ...createBody(), power: 'running', ...changes }) as CreateVm
