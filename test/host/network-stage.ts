import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import type { TapSpec } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import type { Finished } from '../../src/host/exec/exec.ts'
import { atEnd } from '../contract/at-end.ts'
import { endChild, firstLine } from '../contract/child.ts'
import { until } from '../contract/until.ts'

/** Longer than the second after which a kernel asks again who has an address (RFC 4861, RETRANS_TIMER). */
const ANSWER_SECONDS = 3
/** Below `limits.toolMs`, which bounds ping itself. */
const REPLY_SECONDS = 8

/** A place with a network stack of its own: a guest behind its tap, the world behind the host, or the host itself. */
export class Place {
  readonly #prefix: readonly string[]

  /** @param namespace undefined for the host, which is the namespace of the test */
  constructor(namespace?: string) {
    this.#prefix = namespace === undefined ? [] : ['ip', 'netns', 'exec', namespace]
  }

  async run(...argv: readonly string[]): Promise<string> {
    return (await this.#run(argv)).stdout
  }

  async ip(...lines: readonly string[]): Promise<void> {
    for (const line of lines) await this.run('ip', ...line.split(' '))
  }

  async isOperational(device: string): Promise<void> {
    await until(
      () => this.run('ip', 'link', 'show', 'dev', device),
      (text) => text.includes('state UP'),
    )
  }

  /**
   * Sends one echo, and waits for its answer for as long as a busy machine may need;
   * `from` is one of the place's addresses.
   */
  async reaches(to: string, from?: string): Promise<boolean> {
    return (await this.#ping(to, { from, waitSeconds: REPLY_SECONDS })).code === 0
  }

  /** The same where no answer should come. */
  async canPing(to: string, from?: string): Promise<boolean> {
    return (await this.#ping(to, { from, waitSeconds: ANSWER_SECONDS })).code === 0
  }

  /** Sends one echo and does not wait for an answer. */
  async send(to: string, from?: string): Promise<void> {
    await this.#ping(to, { from, waitSeconds: 0.01 })
  }

  #ping(to: string, options: { from: string | undefined; waitSeconds: number }): Promise<Finished> {
    const source = options.from === undefined ? [] : ['-I', options.from]
    return this.#run(['ping', '-n', '-c', '1', '-W', String(options.waitSeconds), ...source, to], [0, 1])
  }

  #run(argv: readonly string[], okCodes: readonly number[] = [0]): Promise<Finished> {
    return run(this.argv(argv), { okCodes })
  }

  /** Returns the command line that runs a program in this place. */
  argv(argv: readonly string[]): [string, ...string[]] {
    const [program, ...args] = [...this.#prefix, ...argv]
    assert.ok(program !== undefined)
    return [program, ...args]
  }

  /**
   * Starts to record the source of every incoming packet: before any filter of this place, or with another priority
   * after the filters before it.
   */
  async listen(priority = -450): Promise<void> {
    const table = `table inet seen {
      set ipv4 { type ipv4_addr; flags dynamic; size 65535; }
      set ipv6 { type ipv6_addr; flags dynamic; size 65535; }
      chain see { type filter hook prerouting priority ${priority}; update @ipv4 { ip saddr }; update @ipv6 { ip6 saddr }; }
    }`
    writeFileSync('/run/netns/.seen', table)
    await this.run('nft', '-f', '/run/netns/.seen')
  }

  /** Sources that were heard since `listen`. */
  async heard(): Promise<readonly string[]> {
    const listings = await Promise.all(
      ['ipv4', 'ipv6'].map((set) => this.run('nft', '-j', 'list', 'set', 'inet', 'seen', set)),
    )
    return listings.flatMap((json) => {
      const { nftables } = JSON.parse(json) as { nftables: { set?: { elem?: unknown[] } }[] }
      const elements = nftables.flatMap(({ set }) => set?.elem ?? [])
      return elements.map((element) => (typeof element === 'string' ? element : valueOf(element)))
    })
  }

  /** Resolves once a packet from this source was heard. */
  async hears(source: string): Promise<void> {
    await until(
      () => this.heard(),
      (sources) => sources.includes(source),
    )
  }
}

const valueOf = (element: unknown): string => (element as { elem: { val: string } }).elem.val

export type Guest = Place & {
  /** Puts a frame of any kind on the wire to the host. */
  inject(frame: Uint8Array): void
}

let places = 0

/** A namespace behind a veth pair: the rest of the world, with a route back to all guests. */
export async function makeWorld(t: TestContext): Promise<Place> {
  const name = `world${++places}`
  await run(['ip', 'netns', 'add', name])
  atEnd(t, () => run(['ip', 'netns', 'del', name]))
  // Deleted before its namespace: the kernel deletes a namespace's devices some time after `ip netns del` returns.
  atEnd(t, () => run(['ip', 'link', 'del', 'uplink'], { okCodes: [0, 1] }))
  const host = new Place()
  const world = new Place(name)
  await host.ip(
    `link add uplink type veth peer name eth0 netns ${name}`,
    // Link-local addresses are usable at once; otherwise the first seconds would have no neighbour discovery.
    'link set uplink addrgenmode none',
    'addr add fe80::a/64 dev uplink nodad',
    'addr add 203.0.113.1/24 dev uplink',
    'addr add 2001:db8:ffff::1/64 dev uplink nodad',
    'link set uplink up',
  )
  await world.ip(
    'link set lo up',
    'link set eth0 addrgenmode none',
    'addr add fe80::b/64 dev eth0 nodad',
    'addr add 203.0.113.2/24 dev eth0',
    'addr add 2001:db8:ffff::2/64 dev eth0 nodad',
    'link set eth0 up',
    'route add 192.0.2.0/24 via 203.0.113.1',
    'route add 2001:db8::/64 via 2001:db8:ffff::1',
  )
  for (const path of ['ipv4/ip_forward', 'ipv6/conf/all/forwarding'])
    writeFileSync(`/proc/sys/net/${path}`, '1')
  // A new link receives neighbour discovery only after a moment.
  for (const address of ['203.0.113.2', '2001:db8:ffff::2']) await until(() => host.canPing(address), Boolean)
  return world
}

/** A guest with a real network stack behind an existing tap, configured as guests of this host are. */
export async function makeGuest(t: TestContext, spec: TapSpec): Promise<Guest> {
  const name = `guest${++places}`
  await run(['ip', 'netns', 'add', name])
  atEnd(t, () => run(['ip', 'netns', 'del', name]))
  const script = `${import.meta.dirname}/tap-pump.ts`
  const pump = spawn(process.execPath, [script, spec.device, `/run/netns/${name}`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  atEnd(t, async () => {
    // Injected frames may still wait for the pump.
    pump.stdin.destroy()
    await endChild(pump)
  })
  assert.equal(await firstLine(pump), 'ready')

  const place = new Place(name)
  await place.ip('link set lo up', `link set eth0 address ${spec.guestMac}`, 'link set eth0 up')
  // The kernel lets packets out of a device a moment after the device got a carrier.
  await new Place().isOperational(spec.device)
  if (spec.ipv4Address !== undefined) {
    await place.ip(
      `addr add ${spec.ipv4Address}/32 dev eth0`,
      'route add 169.254.0.1 dev eth0',
      'route add default via 169.254.0.1 dev eth0',
    )
  }
  if (spec.ipv6Address !== undefined) {
    await place.ip(
      `addr add ${spec.ipv6Address}/128 dev eth0 nodad`,
      'route add default via fe80::1 dev eth0',
    )
  }
  return Object.assign(place, {
    inject: (frame: Uint8Array) => {
      pump.stdin.write(`${Buffer.from(frame).toString('hex')}\n`)
    },
  })
}
