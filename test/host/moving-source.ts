/**
 * The host that a guest leaves, in the network namespace in which this process runs. It holds the frames for `tapSpec`,
 * and obeys each line of standard input, a command in JSON. It answers each with one line of JSON.
 */
import { createSocket } from 'node:dgram'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { TapTraffic } from '../../src/host/ebpf/tap-traffic.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { silentLog } from '../../src/log/log.ts'
import { tapSpec } from '../contract/taps-stage.ts'
import { HOST_PORT, PORT, trafficProgram } from './traffic-stage.ts'
import type { HeldPacket } from '../../src/ports/traffic.ts'

export type SourceCommand =
  | { readonly send: string; readonly to: string }
  | { readonly held: number }
  | { readonly restart: true }

/** A held packet in JSON. */
export type PacketJson = Omit<HeldPacket, 'frame'> & { readonly frame: string }

const daemon = (): TapTraffic =>
  new TapTraffic({ program: trafficProgram('/run/netns/.bpf-source'), log: silentLog })

await new RoutedTaps({ storeId: 'source' }).ensure(tapSpec)
let traffic = daemon()
await traffic.ensureHeld(tapSpec)
const sockets = { ipv4: createSocket('udp4'), ipv6: createSocket({ type: 'udp6', ipv6Only: true }) }
for (const socket of Object.values(sockets))
  await promisify((bound: () => void) => socket.bind(HOST_PORT, bound))()

async function obey(command: SourceCommand): Promise<unknown> {
  if ('send' in command) {
    const { send, to } = command
    const socket = sockets[to.includes(':') ? 'ipv6' : 'ipv4']
    return await promisify((sent: (error: Error | null) => void) => socket.send(send, PORT, to, sent))()
  }
  if ('held' in command) {
    const packets = await traffic.keepHeldAfter(tapSpec, command.held)
    return packets.map((packet) => ({ ...packet, frame: Buffer.from(packet.frame).toString('base64') }))
  }
  traffic.close()
  traffic = daemon()
  return undefined
}

console.log('ready')
for await (const line of createInterface(process.stdin))
  console.log(JSON.stringify((await obey(JSON.parse(line) as SourceCommand)) ?? null))
process.exit()
