/** A controller: one kept connection over mutual TLS to the daemon of one host. */
import { Agent, request } from 'node:https'
import { until } from './inside/until.ts'

/** Certificates in PEM, for node:tls. */
export type Identity = {
  readonly ca: Buffer | string
  readonly cert: Buffer | string
  readonly key: Buffer | string
}

/** The members of a VM that are read here; the API's own reference has the whole resource. */
export type Vm = {
  readonly id: string
  readonly monitor?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly desired: { readonly power: string; readonly migration?: object }
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
    readonly guest?: {
      readonly agent_since?: string
      readonly ready_since?: string
      readonly not_ready?: string
    }
    readonly last_traffic_at?: string
    readonly restarts?: number
    readonly last_exit?: {
      readonly at: string
      readonly cause: string
      readonly detail: string
      readonly console: readonly string[]
    }
    /** How far the VM has left this host. */
    readonly migration?: { readonly stage: string; readonly withdrawn_because?: string }
    /** How far the VM has come to this host. */
    readonly arrival?: { readonly stage: string; readonly round: number; readonly refused_because?: string }
    readonly started_at?: string
    readonly waiting_for?: string
    readonly last_stop?: { readonly at: string; readonly how: string }
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

const PORT = 9000
const ANSWER_BOUND_MS = 10_000

export class ControllerClient {
  readonly #host: string
  readonly #identity: () => Identity
  #agent: Agent | undefined

  /** `identity` is read when the connection is opened. */
  constructor(host: string, identity: () => Identity) {
    this.#host = host
    this.#identity = identity
  }

  /** Closes the connection, so that the process can end. */
  close(): void {
    this.#agent?.destroy()
    this.#agent = undefined
  }

  /** Sends one request; returns the answer whatever its status. Rejects if no answer comes. */
  async call(method: string, path: string, body?: unknown): Promise<Answer> {
    // Each server certificate that set-up makes has this name, whatever the address of the host.
    this.#agent ??= new Agent({
      keepAlive: true,
      maxSockets: 1,
      servername: 'localhost',
      ...this.#identity(),
    })
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
    const options = {
      host: this.#host,
      port: PORT,
      method,
      path,
      agent: this.#agent,
      headers: body === undefined ? {} : { 'content-type': 'application/json' },
      timeout: ANSWER_BOUND_MS,
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
  async mutate(method: string, path: string, body?: unknown): Promise<Vm> {
    const answer = await this.call(method, path, body)
    if (answer.status >= 300)
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    return answer.body
  }

  setPower(id: string, state: string): Promise<Vm> {
    return this.mutate('PUT', `/v1/vms/${id}/power`, { state })
  }

  async getVm(id: string): Promise<Vm> {
    const { status, body } = await this.call('GET', `/v1/vms/${id}`)
    if (status !== 200) throw new Error(`GET ${id}: ${status}`)
    return body
  }

  /** Waits until the generations are equal and the VM is in `state`, without an error. */
  settled(id: string, state: string, boundMs?: number): Promise<Vm> {
    return until(
      `${id} settles as ${state}`,
      async () => {
        const vm = await this.getVm(id)
        const { observed, generations } = vm
        if (observed.error !== undefined) throw new Error(observed.error)
        return observed.state === state && generations.observed === generations.desired ? vm : undefined
      },
      boundMs,
    )
  }

  /** Waits until the daemon has adopted and inspected everything on the host. */
  ready(boundMs?: number): Promise<true> {
    return until(
      'the daemon is ready',
      async () => ((await this.call('GET', '/readyz')).status === 200 ? true : undefined),
      boundMs,
    )
  }

  /** Deletes a VM and waits until it is gone. */
  async remove(id: string): Promise<void> {
    await until(`${id} is gone`, async () =>
      // Repeat the request each time: a starting daemon refuses the first.
      (await this.call('DELETE', `/v1/vms/${id}`)).status === 204 ? true : undefined,
    )
  }
}
