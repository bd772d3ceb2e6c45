/** A controller inside the lab: one kept connection over mutual TLS to the daemon of that host. */
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { until } from './until.ts'

const TLS = '/etc/vmhostd/tls'
export const CURL_TLS = `--cacert ${TLS}/ca.crt --cert ${TLS}/controller.crt --key ${TLS}/controller.key`

/** The members of a VM that are read here; the API's own reference has the whole resource. */
export type Vm = {
  readonly id: string
  readonly desired: { readonly power: string }
  readonly observed: {
    readonly state: string
    readonly error?: string
    readonly compute?: object
    readonly disk?: { readonly size_mib: number; readonly guest_size_mib?: number }
    readonly partial_faults?: readonly {
      readonly code: string
      readonly step: string
      readonly detail: string
    }[]
    readonly fault?: { readonly code: string; readonly step: string; readonly attempt: number }
    readonly saved_state?: { readonly saved_at: string; readonly size_mib: number }
    readonly last_traffic_at?: string
    readonly last_wake?: {
      readonly at: string
      readonly reason: string
      readonly duration_ms: number
      readonly held_packets: number
      readonly dropped_packets: number
    }
  }
  readonly generations: { readonly desired: number; readonly observed: number }
  readonly operation_id?: string
}

export type Answer = { readonly status: number; readonly body: Vm }

let agent: Agent | undefined

/** The certificates that set-up made for the controller, for node:tls. */
export const controllerIdentity = (): { ca: Buffer; cert: Buffer; key: Buffer } => ({
  ca: readFileSync(`${TLS}/ca.crt`),
  cert: readFileSync(`${TLS}/controller.crt`),
  key: readFileSync(`${TLS}/controller.key`),
})

/** The certificates that set-up made for this host as a node, for node:tls. */
export const nodeIdentity = (): { ca: Buffer; cert: Buffer; key: Buffer } => ({
  ca: readFileSync(`${TLS}/ca.crt`),
  cert: readFileSync(`${TLS}/node.crt`),
  key: readFileSync(`${TLS}/node.key`),
})

function openAgent(): Agent {
  agent ??= new Agent({
    keepAlive: true,
    maxSockets: 1,
    ...controllerIdentity(),
  })
  return agent
}

/** Closes the connection, so that the process can end. */
export function closeController(): void {
  agent?.destroy()
  agent = undefined
}

/** Sends one request; returns the answer whatever its status. Rejects if no answer comes. */
export async function call(method: string, path: string, body?: unknown): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
  const headers = body === undefined ? {} : { 'content-type': 'application/json' }
  const options = {
    host: 'localhost',
    port: 9000,
    method,
    path,
    agent: openAgent(),
    headers,
    timeout: 10_000,
  }
  const sent = request(options, (response) => {
    const chunks: Buffer[] = []
    response.on('data', (chunk: Buffer) => chunks.push(chunk))
    response.on('end', () =>
      resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }),
    )
    response.on('error', reject)
  })
  sent.on('error', reject).on('timeout', () => sent.destroy(new Error(`${method} ${path}: no answer`)))
  sent.end(body === undefined ? undefined : JSON.stringify(body))
  const { status, text } = await promise
  return { status, body: (text === '' ? {} : JSON.parse(text)) as Vm }
}

/** Sends a mutation that must be accepted; throws any other answer. */
export async function mutate(method: string, path: string, body?: unknown): Promise<Vm> {
  const answer = await call(method, path, body)
  if (answer.status >= 300)
    throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}

export const setPower = (id: string, state: string): Promise<Vm> =>
  mutate('PUT', `/v1/vms/${id}/power`, { state })

export async function getVm(id: string): Promise<Vm> {
  const { status, body } = await call('GET', `/v1/vms/${id}`)
  if (status !== 200) throw new Error(`GET ${id}: ${status}`)
  return body
}

/** Waits until the generations are equal and the VM is in `state`, without an error. */
export const settled = (id: string, state: string, boundMs?: number): Promise<Vm> =>
  until(
    `${id} settles as ${state}`,
    async () => {
      const vm = await getVm(id)
      const { observed, generations } = vm
      if (observed.error !== undefined) throw new Error(observed.error)
      return observed.state === state && generations.observed === generations.desired ? vm : undefined
    },
    boundMs,
  )

/** Deletes a VM and waits until it is gone. */
export async function remove(id: string): Promise<void> {
  await until(`${id} is gone`, async () =>
    // Repeat the request each time: a starting daemon refuses the first.
    (await call('DELETE', `/v1/vms/${id}`)).status === 404 ? true : undefined,
  )
}
