/**
 * Bandwidth limits, measured. A limiter never lets through more than its rate and one burst: this is asserted strictly,
 * and load on the machine cannot break it. The lower bound is asserted loosely.
 */
import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import type { Bandwidth } from '../../src/core/desired.ts'
import { run } from './run.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { atEnd } from '../contract/at-end.ts'
import { endChild, firstLine } from '../contract/child.ts'
import { tapSpec } from '../contract/taps-stage.ts'
import { until } from '../contract/until.ts'
import { makeGuest, makeWorld } from './network-stage.ts'
import type { Guest } from './network-stage.ts'

const PORT = 5001
const { device, vmId, ipv4Address: ipv4 = '', ipv6Address: ipv6 = '' } = tapSpec
const limited = (bandwidth: Bandwidth): TapSpec => ({ ...tapSpec, bandwidth })
const mbit = (rate: number, bytes: number): { rate: number; bytes: number } => ({ rate, bytes })

async function behindTap(t: TestContext, bandwidth: Bandwidth): Promise<{ taps: RoutedTaps; guest: Guest }> {
  const taps = new RoutedTaps({ storeId: 'store-1' })
  await taps.ensure(limited(bandwidth))
  atEnd(t, () => taps.close())
  atEnd(t, () => taps.remove(device, vmId))
  const guest = await makeGuest(t, tapSpec)
  const [program, ...args] = guest.argv([
    process.execPath,
    `${import.meta.dirname}/tap-peer.ts`,
    String(PORT),
  ])
  const peer = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  atEnd(t, () => endChild(peer))
  assert.equal(await firstLine(peer), 'ready')
  return { taps, guest }
}

/** Opens a connection to the guest, over which bytes go either way. */
class Link {
  readonly #socket: Socket
  readonly #closed = new AbortController()
  #received = 0

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (chunk: Buffer) => (this.#received += chunk.length))
    socket.once('close', () => this.#closed.abort(new Error('the guest closed the connection')))
  }

  static async to(t: TestContext, host: string): Promise<Link> {
    const socket = connect({ host, port: PORT, noDelay: true })
    atEnd(t, () => socket.destroy())
    await once(socket, 'connect')
    return new Link(socket)
  }

  /** Milliseconds until the guest has received that many bytes. */
  async toGuest(bytes: number): Promise<number> {
    return this.#exchange(() => {
      this.#socket.write(`take ${bytes}\n`)
      this.#socket.write(Buffer.alloc(bytes))
    }, 'done\n'.length)
  }

  /** Milliseconds until that many bytes came from the guest. */
  async fromGuest(bytes: number): Promise<number> {
    return this.#exchange(() => this.#socket.write(`send ${bytes}\n`), bytes)
  }

  async #exchange(ask: () => void, answerBytes: number): Promise<number> {
    this.#received = 0
    const startedAt = performance.now()
    ask()
    while (this.#received < answerBytes) await once(this.#socket, 'data', this.#closed)
    assert.equal(this.#received, answerBytes)
    return performance.now() - startedAt
  }
}

const TIMES_SLOWER_AT_MOST = 10

function assertLimited({ rate, bytes }: { rate: number; bytes: number }, ms: number): void {
  const perMs = (rate * 1_000_000) / 8 / 1000
  const burst = Math.max(perMs * limits.bandwidthBurstMs, limits.bandwidthBurstBytesMin)
  const figures = `${bytes} bytes in ${ms.toFixed(0)} ms at ${rate} Mbit/s: ${((bytes * 8) / ms / 1000).toFixed(2)} Mbit/s`
  assert.ok(bytes <= perMs * ms + burst, `too many: ${figures}`)
  assert.ok(bytes * TIMES_SLOWER_AT_MOST >= perMs * ms, `too few: ${figures}`)
}

for (const [family, address] of [
  ['IPv4', ipv4],
  ['IPv6', ipv6],
] as const) {
  test(
    `a guest's reception and transmission over ${family} are limited, each by its own rate`,
    { skip },
    async (t) => {
      await behindTap(t, { receiveMbitPerSecond: 10, transmitMbitPerSecond: 5 })
      const link = await Link.to(t, address)
      assertLimited(mbit(10, 2_000_000), await link.toGuest(2_000_000))
      assertLimited(mbit(5, 1_000_000), await link.fromGuest(1_000_000))
    },
  )
}

test('traffic from the world through the host to a guest, and back, is limited', { skip }, async (t) => {
  const world = await makeWorld(t)
  await behindTap(t, { receiveMbitPerSecond: 10, transmitMbitPerSecond: 5 })
  const measure = async (command: string, answerBytes: number): Promise<number> => {
    const script = `import { connect } from 'node:net'
      const socket = connect({ host: '${ipv4}', port: ${PORT} })
      let left = ${answerBytes}, startedAt = performance.now()
      socket.on('data', (chunk) => {
        left -= chunk.length
        if (left > 0) return
        console.log(performance.now() - startedAt)
        socket.destroy()
      })
      ${command}`
    return Number(await world.run(process.execPath, '--input-type=module', '-e', script))
  }
  const take = "socket.write('take 1000000\\n'); socket.write(Buffer.alloc(1000000))"
  assertLimited(mbit(10, 1_000_000), await measure(take, 5))
  assertLimited(mbit(5, 500_000), await measure("socket.write('send 500000\\n')", 500_000))
})

test('limits change and go while a connection is in use, which continues', { skip }, async (t) => {
  const { taps } = await behindTap(t, {})
  const link = await Link.to(t, ipv4)
  await link.toGuest(1_000_000)
  for (const bandwidth of [
    { receiveMbitPerSecond: 20, transmitMbitPerSecond: 20 },
    { receiveMbitPerSecond: 5, transmitMbitPerSecond: 5 },
  ]) {
    await taps.ensure(limited(bandwidth))
    const rate = bandwidth.receiveMbitPerSecond
    assertLimited(mbit(rate, 1_000_000), await link.toGuest(1_000_000))
    assertLimited(mbit(rate, 1_000_000), await link.fromGuest(1_000_000))
  }

  for (const transfer of ['toGuest', 'fromGuest'] as const) {
    const over = link[transfer](3_000_000)
    for (const rate of [10, 50, 1000])
      await taps.ensure(limited({ receiveMbitPerSecond: rate, transmitMbitPerSecond: rate }))
    await taps.ensure(tapSpec)
    await taps.ensure(limited({ transmitMbitPerSecond: 100 }))
    await taps.ensure(tapSpec)
    await over
  }
  assert.doesNotMatch((await run(['tc', 'qdisc', 'show', 'dev', device])).stdout, /tbf/)
  assert.equal((await run(['ip', 'link', 'show', 'type', 'ifb'])).stdout, '')
})

test(
  'packets over a limit are dropped and counted, and the bytes of a guest are counted as its own',
  { skip },
  async (t) => {
    const { taps, guest } = await behindTap(t, { receiveMbitPerSecond: 1, transmitMbitPerSecond: 1 })
    const before = await taps.counters(device)
    const link = await Link.to(t, ipv4)
    await link.toGuest(200_000)
    const after = await taps.counters(device)
    const grown = (name: keyof typeof before): number => after[name] - before[name]
    assert.ok(grown('receivedBytes') > 200_000 && grown('receivedPackets') > 100)
    assert.ok(grown('transmittedBytes') > 1000 && grown('transmittedBytes') < 100_000)
    assert.ok(grown('transmittedPackets') > 1)

    const flood = (place: { run: (...argv: string[]) => Promise<string> }, to: string): Promise<string> =>
      place
        .run('ping', '-n', '-q', '-c', '200', '-i', '0.001', '-s', '1400', '-W', '0.01', to)
        .catch(() => '')
    // On a busy machine one flood may come too slowly to go over the limit.
    await until(
      async () => {
        await flood(guest, '169.254.0.1')
        return taps.counters(device)
      },
      ({ transmitDroppedPackets }) => transmitDroppedPackets > 0,
    )
  },
)

test(
  'a guest under a limit is still distinguished from a spoofer: its packets come in by its tap',
  { skip },
  async (t) => {
    const { guest } = await behindTap(t, { transmitMbitPerSecond: 10 })
    await run([
      'nft',
      `add table inet seen; add chain inet seen raw { type filter hook prerouting priority raw; };
    add rule inet seen raw iifname "${device}" ip saddr ${ipv4} counter comment "by the tap";
    add rule inet seen raw iifname != "${device}" ip saddr ${ipv4} counter comment "otherwise"`,
    ])
    atEnd(t, () => run(['nft', 'delete table inet seen']))
    assert.equal(await guest.reaches('169.254.0.1', ipv4), true)
    const { stdout } = await run(['nft', 'list table inet seen'])
    assert.match(stdout, /counter packets [1-9]\d* bytes \d+ comment "by the tap"/)
    assert.match(stdout, /counter packets 0 bytes 0 comment "otherwise"/)
  },
)
