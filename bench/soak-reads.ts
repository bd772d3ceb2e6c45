/** Reads that soak picks from, among them those that wait, and those that a client gives up. */
import { once } from 'node:events'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import { controllerIdentity } from '../lab/inside/controller.ts'
import { leave, view } from '../lab/inside/console.ts'
import { pick } from '../test/sim/random.ts'
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { SoakVm } from './soak-vm.ts'

const PORT = 9000
/** The longest wait: a timer that is left behind by a poll that was given up is pending until then. */
const WAIT_SECONDS = 60
/** A peer of its own, because failed handshakes count against theirs. */
const STRANGER = '127.0.0.2'

export const READS: Readonly<Record<string, (vm: SoakVm) => Promise<unknown>>> = {
  read: (vm) => expecting(vm, 200, ''),
  plan: (vm) => expecting(vm, 200, '/plan'),
  counters: (vm) => expecting(vm, 200, '/counters'),
  history: (vm) => expecting(vm, 200, '/events'),
  missing: (vm) => expecting(vm, 404, '/nothing'),
  list: ({ client, random }) => client.call('GET', pick(random, ['/v1/vms', '/v1/vm-states', '/v1/sync'])),
  async refused({ client, id }) {
    const { status } = await client.call('PUT', `/v1/vms/${id}/compute`, { memory_mib: 'much' })
    if (status !== 400) throw new Error(`a malformed change was answered with ${status}`)
  },
  async pollAndChange(vm) {
    const poll = await openPoll(vm)
    const answered = once(poll, 'response') as Promise<[IncomingMessage]>
    await change(vm)
    const [response] = await answered
    if (response.statusCode !== 200) throw new Error(`a long poll was answered with ${response.statusCode}`)
    response.resume()
    await once(response, 'close')
  },
  async pollAndGiveUp(vm) {
    giveUp(await openPoll(vm))
  },
  async watchListAndGiveUp({ client }) {
    const { revision } = (await client.call('GET', '/v1/vms')).body as unknown as { revision: number }
    giveUp(await sent(`/v1/vms?changed_after=${revision}`))
  },
  async followEventsAndGiveUp() {
    const stream = await sent('/v1/events')
    await once(stream, 'response')
    giveUp(stream)
  },
  async console({ id, random, client }) {
    // Otherwise the console is that of a guest that ends, and the viewer is closed.
    await client.setPower(id, 'running')
    await client.settled(id, 'running')
    const viewer = await view(id)
    if (random() < 0.5) return leave(viewer)
    const closed = once(viewer.socket, 'close')
    viewer.socket.terminate()
    await closed
  },
  async handshakeThatEnds() {
    const socket = connect({ host: '127.0.0.1', port: PORT, localAddress: STRANGER })
    await once(socket, 'connect')
    socket.write('GET / HTTP/1.1\r\n\r\n')
    socket.resume()
    socket.on('error', () => {})
    await once(socket, 'close')
  },
}

async function expecting({ client, id }: SoakVm, expected: number, below: string): Promise<void> {
  const { status } = await client.call('GET', `/v1/vms/${id}${below}`)
  if (status !== expected) throw new Error(`GET /v1/vms/${id}${below}: ${status}`)
}

const change = ({ client, id, random }: SoakVm): Promise<unknown> =>
  client.mutate('PUT', `/v1/vms/${id}/metadata`, { labels: { poll: String(random()) } })

/** Opens a long poll on the VM as it is now. */
async function openPoll({ client, id }: SoakVm): Promise<ClientRequest> {
  const { revision } = (await client.getVm(id)) as unknown as { readonly revision: number }
  return sent(`/v1/vms/${id}`, { 'if-none-match': `"${revision}"` })
}

/** Sends a request that waits, over a connection of its own. Resolves when the daemon has it. */
async function sent(path: string, headers: object = {}): Promise<ClientRequest> {
  const agent = new Agent(controllerIdentity())
  const waits = { ...headers, prefer: `wait=${WAIT_SECONDS}` }
  const sending = request({ host: 'localhost', port: PORT, path, agent, headers: waits })
  sending.end()
  await once(sending, 'finish')
  return sending
}

function giveUp(sending: ClientRequest): void {
  sending.on('error', () => {})
  sending.destroy()
}
