import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { ipv4, IP, tcp, udp } from './packets.ts'
import { HeldTraffic } from '../../src/host/ebpf/held-traffic.ts'
import { atEnd } from '../contract/at-end.ts'
import { setStage, userId, Wire } from './program-stage.ts'
import type { UserId } from '../../src/core/ids.ts'
import type { Stage } from './program-stage.ts'

const otherId = 100_002 as UserId

/** Lengths of the headers of Ethernet, IPv4 and UDP. */
const HEADERS_BYTES = 14 + 20 + 8
const frameOf = (bytes: number): Buffer => ipv4({ payload: udp(53, bytes - HEADERS_BYTES) })

/** The sizes that the program reserves, but for the shortest and the longest. */
const SIZES = [2048, 4096, 8192, 16_384, 32_768]

test('frames of every length are held unchanged', { skip }, async (t) => {
  const { send, hold, events } = await setStage(t)
  // Around the sizes, and the longest that IP allows.
  for (const bytes of [42, 43, 255, 256, 257, 1514, ...SIZES.flatMap((size) => [size, size + 1]), 65_549]) {
    hold()
    const frame = frameOf(bytes)
    assert.equal(frame.length, bytes)
    frame.set([1, 2, 3], bytes - 3)
    assert.equal(send(frame), 'held', `${bytes} bytes`)
    assert.deepEqual(
      events().map((event) => Buffer.compare(event.frame, frame)),
      [0],
      `${bytes} bytes`,
    )
  }
})

test('frames are read whole while the ring wraps around', { skip }, async (t) => {
  const { send, hold, events } = await setStage(t)
  // The longest frame fills its record, and no whole number of records fills the ring.
  const bytes = 65_549
  const turns = 3
  for (let sent = 0; sent * bytes < turns * limits.trafficEventsBytes; sent++) {
    hold()
    const frame = frameOf(bytes).fill(sent % 251, HEADERS_BYTES)
    assert.equal(send(frame), 'held')
    assert.deepEqual(
      events().map((event) => Buffer.compare(event.frame, frame)),
      [0],
      `frame ${sent}`,
    )
  }
})

test(
  'a burst of TCP that the device would cut is held whole, with the size of its segments',
  { skip },
  async (t) => {
    const { send, hold, events } = await setStage(t)
    hold()
    const burst = ipv4({ protocol: IP.tcp, payload: tcp(['ack'], 80, 14_000) })
    assert.equal(send(burst, { tcpSegmentBytes: 1400 }), 'held')
    const [event] = events()
    assert.equal(event?.gsoSize, 1400)
    assert.equal(event.frame.length, burst.length)
  },
)

test('held frames stay within the bound, and the rest is counted as dropped', { skip }, async (t) => {
  const { send, hold, counted, program, wire } = await setStage(t)
  hold()
  for (let sent = 0; sent < limits.heldFramesMax; sent++) assert.equal(send(ipv4({})), 'held')
  for (let sent = 0; sent < 3; sent++) assert.equal(send(ipv4({})), 'dropped')
  assert.equal(program.held(wire.ifindex)?.frames, limits.heldFramesMax)
  assert.equal(program.held(wire.ifindex)?.droppedFrames, 3)
  assert.equal(counted(), limits.heldFramesMax + 3)
})

test('frames that the daemon has taken make room for as many', { skip }, async (t) => {
  const { send, hold, program, wire } = await setStage(t)
  hold()
  for (let sent = 0; sent < limits.heldFramesMax; sent++) send(ipv4({}))
  program.setTaken(wire.ifindex, { frames: 2, bytes: 2 * ipv4({}).length })
  assert.deepEqual(
    [1, 2, 3].map(() => send(ipv4({}))),
    ['held', 'held', 'dropped'],
  )
})

test('held bytes stay within the bound', { skip }, async (t) => {
  const { send, hold, program, wire } = await setStage(t)
  hold()
  const frame = frameOf(60_000)
  const fitting = Math.floor(limits.heldBytesMax / frame.length)
  for (let sent = 0; sent < fitting; sent++) assert.equal(send(frame), 'held')
  assert.equal(send(frame), 'dropped')
  // A frame that still fits is held.
  assert.equal(send(ipv4({})), 'held')
  const { frames, bytes, droppedFrames } = program.held(wire.ifindex) ?? assert.fail()
  assert.deepEqual([frames, droppedFrames], [fitting + 1, 1])
  assert.equal(bytes, fitting * frame.length + ipv4({}).length)
})

for (const size of SIZES)
  test(`frames of ${size + 1} bytes to one guest leave room for those to others`, { skip }, async (t) => {
    const { program, send, hold } = await setStage(t)
    const other = await Wire.make(t)
    await program.attach(other.ifindex)
    hold()
    // The first that is too many is dropped.
    while (send(frameOf(size + 1)) === 'held');
    program.startHold(other.ifindex)
    program.setGuest(other.ifindex, { userId: otherId, frames: 'held' })
    const frame = frameOf(1514)
    const fates = Array.from({ length: limits.heldFramesMax }, () => send(frame, { on: other }))
    assert.deepEqual(new Set(fates), new Set(['held']))
  })

/** Fills the ring buffer with frames to one guest, until not even a short one finds room. */
function fillRing({ send, hold }: Stage): void {
  for (const frame of [frameOf(2000), ipv4({})]) {
    for (;;) {
      hold()
      const fates = Array.from({ length: limits.heldFramesMax }, () => send(frame))
      if (fates.includes('dropped')) break
    }
  }
}

test('a guest whose frame finds no room in the ring buffer is reported as wanted', { skip }, async (t) => {
  const stage = await setStage(t)
  const { program, send, events } = stage
  const other = await Wire.make(t)
  await program.attach(other.ifindex)
  fillRing(stage)
  program.startHold(other.ifindex)
  program.setGuest(other.ifindex, { userId, frames: 'held' })
  assert.equal(send(frameOf(1000), { on: other }), 'dropped')
  const held = program.held(other.ifindex)
  assert.deepEqual(
    { ...held, wantedAtNs: undefined },
    {
      frames: 0,
      bytes: 0,
      droppedFrames: 1,
      wantedAtNs: undefined,
    },
  )
  const last = events().at(-1)
  assert.deepEqual([last?.ifindex, last?.frame.length, last?.counts], [other.ifindex, 0, true])
  assert.equal(last?.atNs, held?.wantedAtNs)
})

test('a guest is wanted although the ring buffer has no room to say so', { skip }, async (t) => {
  const stage = await setStage(t)
  const { program, send, hold } = stage
  const other = await Wire.make(t)
  await program.attach(other.ifindex)
  const wanted: UserId[] = []
  const traffic = new HeldTraffic({
    program,
    nowNs: () => process.hrtime.bigint(),
    onWanted: (id) => wanted.push(id),
    onHeld: () => {},
    onError: (error) => assert.fail(String(error)),
    onUnreported: (error) => assert.fail(String(error)),
  })
  atEnd(t, () => traffic.close())
  fillRing(stage)
  // Each dropped frame leaves an event of 40 bytes, as long as there is room: less than that of a short frame.
  for (let sent = 0; sent < 8; sent += 1) {
    hold()
    assert.equal(send(ipv4({})), 'dropped')
  }
  program.startHold(other.ifindex)
  program.setGuest(other.ifindex, { userId: otherId, frames: 'held' })
  assert.equal(send(ipv4({}), { on: other }), 'dropped')
  traffic.catchUp()
  assert.deepEqual(wanted, [userId, otherId])
})

test('when frames flow again they pass, and held ones can still be read', { skip }, async (t) => {
  const { send, hold, flow, program, wire, events } = await setStage(t)
  hold()
  send(ipv4({}))
  flow()
  assert.equal(send(ipv4({})), 'passed')
  assert.equal(program.held(wire.ifindex)?.frames, 1)
  assert.equal(events().length, 1)
  hold()
  assert.deepEqual(program.held(wire.ifindex), { frames: 0, bytes: 0, droppedFrames: 0 })
})
