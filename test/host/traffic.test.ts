import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { limits } from '../../src/config/limits.ts'
import { TrafficEvents } from '../../src/host/ebpf/traffic-events.ts'
import { run } from './run.ts'
import { atEnd } from '../contract/at-end.ts'
import { tapSpec, otherSpec } from '../contract/taps-stage.ts'
import { trafficContract } from '../contract/traffic.contract.ts'
import { until } from '../contract/until.ts'
import { capture, synAck } from './captured-frames.ts'
import { makeGuest } from './network-stage.ts'
import { datagramsOf, IGNORED_PORT, PORT, TrafficOnTaps } from './traffic-stage.ts'
import type { TestContext } from 'node:test'
import type { HostIdentity, UserId } from '../../src/core/ids.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import type { TapTraffic } from '../../src/host/ebpf/tap-traffic.ts'
import type { Captured } from './captured-frames.ts'
import type { BareGuest } from './traffic-stage.ts'

const { ipv4Address: ipv4 = '', ipv6Address: ipv6 = '' } = tapSpec
const deliver = { deliver: true }
const UDP_HEADER_BYTES = 8

const specOf = ({ device }: HostIdentity): TapSpec => (device === tapSpec.device ? tapSpec : otherSpec)

trafficContract(
  'traffic on taps',
  (t) => {
    const stage = new TrafficOnTaps(t)
    return {
      daemon: () => stage.daemon(),
      makeDevice: (subject) => stage.makeDevice(specOf(subject)),
      deleteDevice: (subject) => stage.deleteDevice(specOf(subject)),
      attach: async (subject) => {
        await stage.attach(specOf(subject))
      },
      send: (subject, name) => stage.send(specOf(subject), name),
      sendIgnored: (subject, name) => stage.send(specOf(subject), name, { port: IGNORED_PORT }),
      given: ({ device }) => datagramsOf(stage.guest(device)),
      pass: (ms) => stage.pass(ms),
    }
  },
  { skip },
)

async function asleep(t: TestContext): Promise<{ stage: TrafficOnTaps; traffic: TapTraffic }> {
  const stage = new TrafficOnTaps(t)
  await stage.makeDevice(tapSpec)
  const traffic = stage.daemon()
  await traffic.ensureHeld(tapSpec)
  return { stage, traffic }
}

async function heldFrames(traffic: TapTraffic, count: number): Promise<void> {
  await until(
    async () => await traffic.inspect(tapSpec),
    (state) => state.kind === 'watched' && state.heldFrames >= count,
  )
}

/** Packets of a protocol that a bare guest got, and whether all of them were sound. */
function got(guest: BareGuest, protocol: Captured['protocol']): readonly Buffer[] {
  const frames = guest.frames().map(capture)
  assert.ok(
    frames.every(({ isSound }) => isSound),
    'every checksum is right',
  )
  return frames.filter((frame) => frame.protocol === protocol).map(({ payload }) => payload)
}

test('datagrams over IPv4 and IPv6 arrive whole, with right checksums, in order', { skip }, async (t) => {
  const { stage, traffic } = await asleep(t)
  // An odd length, and a length of one byte.
  const payloads = ['one', 'x', 'y'.repeat(1401)]
  for (const address of [ipv4, ipv6]) {
    for (const payload of payloads) await stage.send(tapSpec, payload, { address })
  }
  const guest = await stage.attach(tapSpec)
  assert.deepEqual(await traffic.ensureFlowing(tapSpec, deliver), { delivered: 6, dropped: 0 })
  const texts = got(guest, 'udp').map((payload) => payload.subarray(UDP_HEADER_BYTES).toString())
  assert.deepEqual(texts, [...payloads, ...payloads])
})

test('a guest that came after echo requests answers them, including fragments', { skip }, async (t) => {
  const { traffic } = await asleep(t)
  const ping = (address: string, bytes: number): Promise<unknown> =>
    run(['ping', '-n', '-c', '1', '-W', '8', '-s', String(bytes), address])
  // One that is cut in three, because the device takes 1500 bytes at a time.
  const answers = Promise.all([ping(ipv4, 56), ping(ipv6, 56), ping(ipv4, 4000), ping(ipv6, 4000)])
  await heldFrames(traffic, 8)
  await makeGuest(t, tapSpec)
  const { delivered, dropped } = await traffic.ensureFlowing(tapSpec, deliver)
  // The guest may have asked for its neighbours meanwhile, and then the answers are held too.
  assert.ok(delivered >= 8, `${delivered} frames`)
  assert.equal(dropped, 0)
  await answers
})

/** Another guest, in place of the same guest at another host. */
async function destination(stage: TrafficOnTaps, traffic: TapTraffic): Promise<BareGuest> {
  await stage.makeDevice(otherSpec)
  await traffic.ensureWatched(otherSpec)
  return await stage.attach(otherSpec)
}

for (const [family, address] of [
  ['IPv4', ipv4],
  ['IPv6', ipv6],
] as const) {
  test(
    `the first packet of a TCP connection over ${family} is delivered, not its repetition`,
    { skip },
    async (t) => {
      const { stage, traffic } = await asleep(t)
      const guest = await stage.attach(tapSpec)
      const socket = connect({ host: address, port: 80 })
      // Otherwise the kernel continues the connection, and its packets reach the next test.
      atEnd(t, () => socket.resetAndDestroy())
      await heldFrames(traffic, 1)
      assert.deepEqual(got(guest, 'tcp'), [])
      assert.deepEqual(await traffic.ensureFlowing(tapSpec, deliver), { delivered: 1, dropped: 0 })
      const [syn, ...others] = guest.frames().filter((frame) => capture(frame).protocol === 'tcp')
      assert.ok(syn !== undefined && others.length === 0)
      assert.equal(got(guest, 'tcp').length, 1)
      guest.write(synAck(syn))
      await once(socket, 'connect')
    },
  )

  test(
    `a burst of TCP segments over ${family}, which the kernel passes on as one, arrives cut, here and elsewhere`,
    { skip },
    async (t) => {
      const stage = new TrafficOnTaps(t)
      await stage.makeDevice(tapSpec)
      const traffic = stage.daemon()
      await traffic.ensureWatched(tapSpec)
      const guest = await stage.attach(tapSpec)
      const socket = connect({ host: address, port: 80 })
      // Otherwise the kernel continues the connection, and its packets reach the next test.
      atEnd(t, () => socket.resetAndDestroy())
      const isTcp = (frame: Buffer): boolean => capture(frame).protocol === 'tcp'
      const [syn] = await until(
        () => guest.frames().filter(isTcp),
        (frames) => frames.length > 0,
      )
      assert.ok(syn !== undefined)
      await traffic.ensureHeld(tapSpec)
      guest.write(synAck(syn))
      await once(socket, 'connect')
      const sent = Buffer.from(Array.from({ length: 40_000 }, (_, at) => (at * 7) % 251))
      socket.write(sent)
      // The last part of the handshake, and the data that fits into the first window.
      await heldFrames(traffic, 2)
      const elsewhere = await destination(stage, traffic)
      await traffic.inject(otherSpec, await traffic.keepHeldAfter(tapSpec, 0))
      const before = got(guest, 'tcp').length
      const { dropped } = await traffic.ensureFlowing(tapSpec, deliver)
      assert.equal(dropped, 0)

      const segments = got(guest, 'tcp').slice(before)
      const data = segments.map((tcp) => tcp.subarray((tcp.readUInt8(12) >>> 4) * 4))
      const received = Buffer.concat(data)
      assert.ok(received.length >= 10 * 1400, `${received.length} bytes`)
      assert.deepEqual(received, sent.subarray(0, received.length))
      assert.ok(
        data.every(({ length }) => length <= 1460),
        'no segment is longer than the guest takes',
      )
      const moved = got(elsewhere, 'tcp')
      assert.ok(moved.length > 10, `${moved.length} segments`)
      assert.deepEqual(moved, segments.slice(0, moved.length), 'another host cuts it in the same way')
    },
  )
}

test(
  'a watcher that fails is called again at the next packet, and keeps no other guest waiting',
  { skip },
  async (t) => {
    const { stage, traffic } = await asleep(t)
    await stage.makeDevice(otherSpec)
    await traffic.ensureHeld(otherSpec)
    let calls = 0
    const wanted: UserId[] = []
    traffic.watch((userId) => {
      calls += 1
      if (calls === 1) throw new Error('the records cannot be read')
      wanted.push(userId)
    })
    await setImmediate()
    await stage.send(tapSpec, 'one')
    await stage.send(otherSpec, 'other one')
    // A look reads what came, and does not fail for it.
    await traffic.inspect(otherSpec)
    await until(
      () => wanted,
      (guests) => guests.includes(otherSpec.userId),
    )
    assert.deepEqual(wanted, [otherSpec.userId])
    await stage.send(tapSpec, 'two')
    await until(
      () => wanted,
      (guests) => guests.includes(tapSpec.userId),
    )
    const guest = await stage.attach(tapSpec)
    assert.deepEqual(await traffic.ensureFlowing(tapSpec, deliver), { delivered: 2, dropped: 0 })
    assert.deepEqual(datagramsOf(guest), ['one', 'two'])
  },
)

test(
  'a frame that waits in the ring is reported once, and costs nothing from then on',
  { skip },
  async (t) => {
    const { stage } = await asleep(t)
    let calls = 0
    const events = new TrafficEvents({
      fd: stage.program().eventsFd,
      bytes: limits.trafficEventsBytes,
      onEvents: () => {
        calls += 1
      },
    })
    atEnd(t, () => events.close())
    await stage.send(tapSpec, 'one')
    const isReported = async (times: number): Promise<void> => {
      await until(
        () => calls,
        (count) => count >= times,
      )
      // Each turn of the event loop polls for ready descriptors.
      for (let turn = 0; turn < 50; turn++) await setImmediate()
      assert.equal(calls, times)
    }
    await isReported(1)
    await stage.send(tapSpec, 'two')
    await isReported(2)
  },
)

test('no frame is lost or doubled while a stream is repeatedly held and released', { skip }, async (t) => {
  const { stage, traffic } = await asleep(t)
  const guest = await stage.attach(tapSpec)
  // Fewer than the queue of a tap takes; no process empties it meanwhile.
  const count = 500
  const script = `${import.meta.dirname}/datagram-stream.ts`
  const over = new AbortController()
  const stream = run([process.execPath, script, ipv4, String(PORT), String(count)]).finally(() => {
    over.abort()
  })
  const sum = { delivered: 0, dropped: 0 }
  while (!over.signal.aborted) {
    await traffic.ensureHeld(tapSpec)
    await setImmediate()
    const { delivered, dropped } = await traffic.ensureFlowing(tapSpec, deliver)
    sum.delivered += delivered
    sum.dropped += dropped
    await setImmediate()
  }
  await stream
  assert.ok(sum.delivered > 0)
  const given = datagramsOf(guest).map(Number)
  assert.equal(new Set(given).size, given.length, 'none comes twice')
  assert.equal(given.length + sum.dropped, count)
  t.diagnostic(`${sum.delivered} of ${count} were held`)
})

/** Lets a frame wait for its guest, while enough frames of another guest pass to force a copy of it out of the ring. */
async function crowded(t: TestContext): Promise<{ stage: TrafficOnTaps; traffic: TapTraffic }> {
  const { stage, traffic } = await asleep(t)
  await stage.makeDevice(otherSpec)
  await stage.send(tapSpec, 'first')
  // More than the ring holds in all.
  for (let round = 0; round < 12; round++) {
    await traffic.ensureHeld(otherSpec)
    for (let at = 0; at < 200; at++) await stage.send(otherSpec, 'y'.repeat(1400))
    const state = await traffic.inspect(otherSpec)
    assert.equal(state.kind === 'watched' && state.heldFrames, 200)
    await traffic.ensureFlowing(otherSpec, { deliver: false })
  }
  return { stage, traffic }
}

test('a frame that waits does not keep the ring from others, and is not lost', { skip }, async (t) => {
  const { stage, traffic } = await crowded(t)
  await stage.send(tapSpec, 'last')
  const guest = await stage.attach(tapSpec)
  assert.deepEqual(await traffic.ensureFlowing(tapSpec, deliver), { delivered: 2, dropped: 0 })
  assert.deepEqual(datagramsOf(guest), ['first', 'last'])
})

test(
  'frames that a former daemon had in memory are reported as dropped, and the rest is delivered',
  { skip },
  async (t) => {
    const { stage } = await crowded(t)
    await stage.send(tapSpec, 'last')
    const traffic = stage.daemon()
    const state = await traffic.inspect(tapSpec)
    assert.equal(state.kind === 'watched' && state.heldFrames, 1)
    const guest = await stage.attach(tapSpec)
    assert.deepEqual(await traffic.ensureFlowing(tapSpec, deliver), { delivered: 1, dropped: 1 })
    assert.deepEqual(datagramsOf(guest), ['last'])
  },
)

test('a device that is down does not prevent holding and delivery for other guests', { skip }, async (t) => {
  const { stage, traffic } = await asleep(t)
  await stage.send(tapSpec, 'one')
  await heldFrames(traffic, 1)
  await stage.makeDevice(otherSpec)
  await traffic.ensureHeld(otherSpec)
  await stage.send(otherSpec, 'other one')
  // As left by a daemon that ended just after it let frames flow again.
  const program = stage.program()
  const { ifindex } = program.guests().find(({ userId }) => userId === tapSpec.userId) ?? assert.fail()
  program.setGuest(ifindex, { userId: tapSpec.userId, frames: 'flowing' })
  await run(['ip', 'link', 'set', tapSpec.device, 'down'])

  const after = stage.daemon()
  const guest = await stage.attach(otherSpec)
  assert.deepEqual(await after.ensureFlowing(otherSpec, deliver), { delivered: 1, dropped: 0 })
  assert.deepEqual(datagramsOf(guest), ['other one'])
  assert.deepEqual(program.taken(ifindex)?.frames, 1, 'what cannot be given is let go of')
})
