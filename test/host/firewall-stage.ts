import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import type { FirewallPolicy } from '../../src/core/network/ruleset.ts'
import { guestRuleOf } from '../../src/core/network/tap.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import { NftFirewall } from '../../src/host/nftables/nft-firewall.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { atEnd } from '../contract/at-end.ts'
import { endChild, firstLine, linesOf } from '../contract/child.ts'
import { tapSpec } from '../contract/taps-stage.ts'
import { makeGuest, makeWorld } from './network-stage.ts'
import type { Guest, Place } from './network-stage.ts'

export const closed: FirewallPolicy = {
  guestToGuest: false,
  inboundDefault: 'accept',
  hostServices: [],
  masquerade: [],
  connectionsMax: 1000,
}

/** Path of the daemon's record of the table: in the mount namespace of the test file. */
export const recordFile = '/run/netns/.firewall.json'

export const families = [
  {
    guest: '192.0.2.10',
    neighbour: '192.0.2.11',
    world: '203.0.113.2',
    host: '203.0.113.1',
    stranger: '192.0.2.99',
  },
  {
    guest: '2001:db8::10',
    neighbour: '2001:db8::11',
    world: '2001:db8:ffff::2',
    host: '2001:db8:ffff::1',
    stranger: '2001:db8::99',
  },
] as const

export type Stage = {
  readonly firewall: NftFirewall
  readonly world: Place
  readonly guests: readonly Guest[]
  readonly taps: RoutedTaps
}

/** Guests behind taps, let through by a firewall, on a host with a world behind it. */
export async function stage(
  t: TestContext,
  policy = closed,
  specs: readonly TapSpec[] = [tapSpec],
): Promise<Stage> {
  const world = await makeWorld(t)
  const taps = new RoutedTaps({ storeId: 'store-1' })
  const firewall = new NftFirewall({ policy, guests: specs.map(guestRuleOf), recordFile })
  atEnd(t, () => run(['nft', 'flush', 'ruleset']))
  atEnd(t, () => firewall.close())
  atEnd(t, () => taps.close())
  for (const { device, vmId } of specs) atEnd(t, () => taps.remove(device, vmId))
  await firewall.start()
  const guests: Guest[] = []
  for (const spec of specs) {
    await taps.ensure(spec)
    // The second barrier against forged sources; here the first is tested.
    writeFileSync(`/proc/sys/net/ipv4/conf/${spec.device}/rp_filter`, '0')
    guests.push(await makeGuest(t, spec))
  }
  return { firewall, world, guests, taps }
}

export const only = ({ guests }: Stage): Guest => guests[0] ?? assert.fail('no guest')

/** Opens a TCP or UDP port in a place that echoes its input, until the test ends. */
export async function listenOn(
  t: TestContext,
  place: Place,
  port: number,
  protocol: 'tcp' | 'udp' = 'tcp',
): Promise<void> {
  await converse(
    t,
    place,
    protocol === 'tcp'
      ? `require('node:net').createServer(peer => peer.pipe(peer)).listen(${port}, '::', () => console.log('ready'))`
      : `const socket = require('node:dgram').createSocket('udp6')
         socket.on('message', (text, { address, port }) => socket.send(text, port, address))
         socket.bind(${port}, '::', () => console.log('ready'))`,
  )
}

/** Opens a connection between places; a line that is sent over it comes back. */
export async function openConnection(
  t: TestContext,
  place: Place,
  to: { readonly host: string; readonly port: number },
): Promise<Conversation['say']> {
  const script = `const peer = require('node:net').connect(${JSON.stringify(to)}, () => console.log('ready'))
    process.stdin.pipe(peer).pipe(process.stdout)`
  return (await converse(t, place, script)).say
}

/** Opens a flow of datagrams from one port, 5000 by default, to another; a line that is sent comes back, or is lost. */
export async function openFlow(
  t: TestContext,
  place: Place,
  { host, port, localAddress, localPort = 5000 }: Address & { readonly localPort?: number },
): Promise<Conversation> {
  const script = `const socket = require('node:dgram').createSocket('${host.includes(':') ? 'udp6' : 'udp4'}')
    socket.on('error', () => {}).on('message', (text) => process.stdout.write(text))
    socket.bind(${localPort}, ${JSON.stringify(localAddress)}, () => console.log('ready'))
    process.stdin.on('data', (text) => socket.send(text, ${port}, '${host}'))`
  return converse(t, place, script)
}

/** Sends datagrams from one port to another, about one in a millisecond, until the test ends. */
export async function keepSending(
  t: TestContext,
  place: Place,
  { host, port, localAddress }: Address,
): Promise<void> {
  const script = `const socket = require('node:dgram').createSocket('${host.includes(':') ? 'udp6' : 'udp4'}')
    socket.on('error', () => {}).bind(5000, ${JSON.stringify(localAddress)}, () => console.log('ready'))
    setInterval(() => socket.send('?', ${port}, '${host}'), 1)`
  await converse(t, place, script)
}

/**
 * Tries to open connections at the same time, and holds them until the test ends. Returns how many are open, some time
 * after `expected` of them are, and a function that ends them.
 */
export async function openMany(
  t: TestContext,
  place: Place,
  { count, expected, ...to }: Address & { readonly count: number; readonly expected: number },
): Promise<{ readonly open: number; readonly end: () => Promise<void> }> {
  const script = `let open = 0
    const say = () => console.log(open)
    const opened = () => { if (++open === ${expected}) setTimeout(say, 500) }
    for (let i = 0; i < ${count}; i++)
      require('node:net').connect(${JSON.stringify(to)}, opened).on('error', () => {})
    setTimeout(say, 20_000)`
  const [program, ...args] = place.argv([process.execPath, '-e', script])
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const end = (): Promise<void> => endChild(child)
  atEnd(t, end)
  return { open: Number(await firstLine(child)), end }
}

/** Opens and ends connections, some at the same time. Returns how many were opened. */
export async function openAndEnd(
  place: Place,
  { count, ...to }: Address & { readonly count: number },
): Promise<number> {
  const script = `let open = 0, left = ${count}
    const next = () => {
      if (left-- <= 0) return
      require('node:net').connect(${JSON.stringify(to)}, function () { open++; this.end() })
        .on('error', () => {}).on('close', next).resume()
    }
    for (let i = 0; i < 8; i++) next()
    process.on('exit', () => console.log(open))`
  return Number(await place.run(process.execPath, '-e', script))
}

type Conversation = {
  /** Sends a line. Returns the line that answers it. */
  readonly say: (line: string) => Promise<string>
  /** Sends a line, and does not wait for an answer. */
  readonly write: (line: string) => void
}

/** Runs a script that prints `ready`, until the test ends. */
async function converse(t: TestContext, place: Place, script: string): Promise<Conversation> {
  const [program, ...args] = place.argv([process.execPath, '-e', script])
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  atEnd(t, () => endChild(child))
  const next = linesOf(child)
  assert.equal(await next(), 'ready')
  const write = (line: string): void => void child.stdin.write(`${line}\n`)
  const say = (line: string): Promise<string> => {
    const answer = next()
    write(line)
    return answer
  }
  return { say, write }
}

type Address = { readonly host: string; readonly port: number; readonly localAddress?: string }

type Connecting = [place: Place, to: string, port: number, localAddress?: string]

/** Whether a place can connect, where it should not: waits a second for an answer. */
export const canConnect = (...target: Connecting): Promise<boolean> => connected(1000, ...target)

/** Whether a place can connect, where it should: a busy machine has time to answer. */
export const connects = (...target: Connecting): Promise<boolean> => connected(8000, ...target)

async function connected(waitMs: number, ...[place, host, port, localAddress]: Connecting): Promise<boolean> {
  const target = JSON.stringify({ host, port, localAddress })
  const script = `require('node:net').connect(${target}, () => process.exit(0)).on('error', () => process.exit(1))
    setTimeout(() => process.exit(1), ${waitMs})`
  return (await run(place.argv([process.execPath, '-e', script]), { okCodes: [0, 1] })).code === 0
}

/** Sends the first packet of a connection, and does not wait for an answer. */
export async function knock(place: Place, target: Address, protocol: 'tcp' | 'udp' = 'tcp'): Promise<void> {
  const { host, port, localAddress } = target
  const script =
    protocol === 'tcp'
      ? `require('node:net').connect(${JSON.stringify(target)}); setImmediate(() => setImmediate(() => process.exit()))`
      : `const socket = require('node:dgram').createSocket('${host.includes(':') ? 'udp6' : 'udp4'}')
         socket.bind(0, ${JSON.stringify(localAddress)}, () => socket.send('?', ${port}, '${host}', () => process.exit()))`
  await place.run(process.execPath, '-e', script)
}

/** Sends one datagram and waits for its answer. Returns `answered`, or the error of the system, e.g. `ECONNREFUSED`. */
export async function ask(place: Place, { host, port, localAddress }: Address): Promise<string> {
  const script = `const socket = require('node:dgram').createSocket('${host.includes(':') ? 'udp6' : 'udp4'}')
    const say = (text) => { console.log(text); process.exit() }
    socket.on('error', (error) => say(error.code)).on('message', () => say('answered'))
    socket.bind(0, ${JSON.stringify(localAddress)}, () => socket.connect(${port}, '${host}', () => socket.send('?')))`
  return (await place.run(process.execPath, '-e', script)).trim()
}
