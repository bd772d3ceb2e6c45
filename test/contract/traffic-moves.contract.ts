import assert from 'node:assert/strict'
import { limits } from '../../src/config/limits.ts'
import { deliver, guest, isFault, listen, nothing, otherGuest, watched } from './traffic-stage.ts'
import { until } from './until.ts'
import type { UserId } from '../../src/core/ids.ts'
import type { HeldPacket, Traffic } from '../../src/ports/traffic.ts'
import type { Promised, TrafficStage } from './traffic-stage.ts'

/** Promises about the packets of a guest that moves: `guest` is at the source, `otherGuest` at the destination. */
export function movePromises(promise: Promised): void {
  readPromises(promise)
  longPollPromises(promise)
  injectPromises(promise)
  memoryPromises(promise)
  boundPromises(promise)
  wantPromises(promise)
}

const numbers = (packets: readonly HeldPacket[]): readonly number[] => packets.map(({ number }) => number)

/** Holds packets of those names for the guest, and returns them. */
async function held(
  stage: TrafficStage,
  traffic: Traffic,
  ...names: string[]
): Promise<readonly HeldPacket[]> {
  await traffic.ensureHeld(guest)
  for (const name of names) await stage.send(guest, name)
  const packets = await traffic.keepHeldAfter(guest, 0)
  assert.equal(packets.length, names.length)
  return packets
}

async function given(stage: TrafficStage, names: readonly string[]): Promise<void> {
  const got = await until(
    async () => await stage.given(otherGuest),
    (all) => all.length >= names.length,
  )
  assert.deepEqual(got, names)
}

function readPromises(promise: Promised): void {
  promise('held packets are read in order, and reading does not settle them', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(guest)
    await stage.send(guest, 'one')
    await stage.sendIgnored(guest, 'two')
    stage.pass(1000)
    const packets = await traffic.keepHeldAfter(guest, 0)
    assert.deepEqual(
      packets.map(({ number, counts, gsoSize }) => ({ number, counts, gsoSize })),
      [
        { number: 1, counts: true, gsoSize: 0 },
        { number: 2, counts: false, gsoSize: 0 },
      ],
    )
    for (const { ageMs } of packets) assert.ok(Number.isInteger(ageMs) && ageMs >= 1000 && ageMs < 30_000)
    assert.deepEqual(numbers(await traffic.keepHeldAfter(guest, 0)), [1, 2])
    await stage.attach(guest)
    assert.deepEqual(await traffic.ensureFlowing(guest, deliver), { delivered: 2, dropped: 0 })
    assert.deepEqual(await stage.given(guest), ['one', 'two'])
  })

  promise(
    'packets up to a number are forgotten, and the others keep theirs over a new daemon',
    async (stage) => {
      const before = stage.daemon()
      await held(stage, before, 'one', 'two', 'three')
      assert.deepEqual(numbers(await before.keepHeldAfter(guest, 1)), [2, 3])
      const after = stage.daemon()
      assert.deepEqual(numbers(await after.keepHeldAfter(guest, 0)), [2, 3])
      await stage.send(guest, 'four')
      assert.deepEqual(numbers(await after.keepHeldAfter(guest, 2)), [3, 4])
      assert.equal((await watched(after)).heldFrames, 2)
      await stage.attach(guest)
      assert.deepEqual(await after.ensureFlowing(guest, deliver), { delivered: 2, dropped: 0 })
      assert.deepEqual(await stage.given(guest), ['three', 'four'])
    },
  )

  promise('packets that waited too long are not read', async (stage) => {
    const traffic = stage.daemon()
    await held(stage, traffic, 'one', 'two')
    stage.pass(limits.heldFrameAgeMs + 1)
    assert.deepEqual(await traffic.keepHeldAfter(guest, 0), [])
    await stage.attach(guest)
    assert.deepEqual(await traffic.ensureFlowing(guest, deliver), { delivered: 0, dropped: 2 })
  })

  promise('a guest whose frames flow has no held packets, and a new hold counts from 1', async (stage) => {
    const traffic = stage.daemon()
    assert.deepEqual(await traffic.keepHeldAfter(guest, 0), [])
    await held(stage, traffic, 'one', 'two')
    await traffic.ensureFlowing(guest, { deliver: false })
    assert.deepEqual(await traffic.keepHeldAfter(guest, 0), [])
    assert.deepEqual(numbers(await held(stage, traffic, 'three')), [1])
  })
}

function longPollPromises(promise: Promised): void {
  promise('each packet that is held is reported, and none to a watcher that stopped', async (stage) => {
    const traffic = stage.daemon()
    const heard: UserId[] = []
    const ended: UserId[] = []
    traffic.watchHeld((userId) => ended.push(userId))()
    const heardOf = (count: number): Promise<readonly UserId[]> =>
      until(
        () => heard,
        ({ length }) => length >= count,
      )
    const stop = traffic.watchHeld((userId) => heard.push(userId))
    await traffic.ensureWatched(guest)
    await stage.send(guest, 'flows')
    await traffic.ensureHeld(guest)
    await traffic.ensureHeld(otherGuest)
    await stage.send(guest, 'one')
    await heardOf(1)
    await stage.sendIgnored(guest, 'two')
    await heardOf(2)
    await stage.send(otherGuest, 'three')
    assert.deepEqual(await heardOf(3), [guest.userId, guest.userId, otherGuest.userId])
    stop()
    await stage.send(guest, 'four')
    assert.equal((await traffic.keepHeldAfter(guest, 0)).length, 3)
    assert.deepEqual([heard.length, ended], [3, []])
  })
}

function injectPromises(promise: Promised): void {
  promise('packets of the source are delivered before those held here, each once', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(otherGuest)
    await stage.send(otherGuest, 'here')
    const first = await held(stage, traffic, 'one', 'two')
    await traffic.inject(otherGuest, first)
    await stage.send(guest, 'three')
    const all = await traffic.keepHeldAfter(guest, 0)
    await traffic.inject(otherGuest, all)
    await traffic.inject(otherGuest, all)
    assert.equal((await watched(traffic, otherGuest)).heldFrames, 4)
    await stage.attach(otherGuest)
    assert.deepEqual(await stage.given(otherGuest), [])
    assert.deepEqual(await traffic.ensureFlowing(otherGuest, deliver), { delivered: 4, dropped: 0 })
    await stage.send(otherGuest, 'later')
    await given(stage, ['one', 'two', 'three', 'here', 'later'])
  })

  promise('packets that come when frames flow are delivered at once, each once', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureWatched(otherGuest)
    await stage.attach(otherGuest)
    const packets = await held(stage, traffic, 'one', 'two')
    stage.pass(70_000)
    await traffic.inject(otherGuest, packets.slice(0, 1))
    await traffic.inject(otherGuest, packets)
    await given(stage, ['one', 'two'])
    const { heldFrames, idleMs } = await watched(traffic, otherGuest)
    assert.equal(heldFrames, 0)
    assert.ok(idleMs < 60_000, 'a packet that counts ends the idle time')
    assert.deepEqual(await traffic.ensureFlowing(otherGuest, deliver), nothing)
  })
}

function memoryPromises(promise: Promised): void {
  promise('packets of a guest that has ended are dropped and counted', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(otherGuest)
    await traffic.inject(otherGuest, await held(stage, traffic, 'one'))
    await stage.attach(otherGuest)
    const dropped = await traffic.ensureFlowing(otherGuest, { deliver: false })
    assert.deepEqual(dropped, { delivered: 0, dropped: 1 })
    await traffic.ensureHeld(otherGuest)
    assert.equal((await watched(traffic, otherGuest)).heldFrames, 0)
    assert.deepEqual(await traffic.ensureFlowing(otherGuest, deliver), nothing)
    assert.deepEqual(await stage.given(otherGuest), [])
  })

  promise(
    'a device that is not watched takes no packets over, and a removed guest is forgotten',
    async (stage) => {
      const traffic = stage.daemon()
      const packets = await held(stage, traffic, 'one')
      await assert.rejects(traffic.inject(otherGuest, packets), isFault)
      await traffic.ensureHeld(otherGuest)
      await traffic.inject(otherGuest, packets)
      await traffic.remove(otherGuest)
      await traffic.ensureHeld(otherGuest)
      const { heldFrames, wantedSinceMs } = await watched(traffic, otherGuest)
      assert.deepEqual([heldFrames, wantedSinceMs], [0, undefined])
      await traffic.inject(otherGuest, packets)
      assert.equal((await watched(traffic, otherGuest)).heldFrames, 1, 'it is another guest')
    },
  )

  promise('packets of the source end with the daemon, and may come again', async (stage) => {
    const before = stage.daemon()
    await before.ensureHeld(otherGuest)
    await stage.send(otherGuest, 'here')
    const packets = await held(stage, before, 'one')
    await before.inject(otherGuest, packets)
    const after = stage.daemon()
    assert.equal((await watched(after, otherGuest)).heldFrames, 1)
    await after.inject(otherGuest, packets)
    await stage.attach(otherGuest)
    assert.deepEqual(await after.ensureFlowing(otherGuest, deliver), { delivered: 2, dropped: 0 })
    await given(stage, ['one', 'here'])
  })
}

function boundPromises(promise: Promised): void {
  promise('packets of the source stay within the bound, beside those held here', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(otherGuest)
    await stage.send(otherGuest, 'here')
    const names = Array.from({ length: limits.heldFramesMax }, (_, at) => `packet ${at}`)
    const packets = await held(stage, traffic, ...names)
    const [last] = packets.slice(-1)
    assert.ok(last !== undefined)
    const late = [1, 2, 3].map((more) => ({ ...last, number: last.number + more }))
    await traffic.inject(otherGuest, [...packets, ...late])
    assert.equal((await watched(traffic, otherGuest)).heldFrames, limits.heldFramesMax + 1)
    await stage.attach(otherGuest)
    const delivery = await traffic.ensureFlowing(otherGuest, deliver)
    assert.deepEqual(delivery, { delivered: limits.heldFramesMax + 1, dropped: late.length })
    await given(stage, [...names, 'here'])
  })

  promise('the time at the source counts as waiting, whether frames are held here or flow', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(otherGuest)
    const [one] = await held(stage, traffic, 'one')
    assert.ok(one !== undefined)
    const aged = (number: number, ageMs: number): HeldPacket => ({ ...one, number, ageMs })
    await traffic.inject(otherGuest, [
      aged(1, limits.heldFrameAgeMs + 1),
      aged(2, limits.heldFrameAgeMs - 20_000),
    ])
    stage.pass(21_000)
    await traffic.inject(otherGuest, [aged(3, 0)])
    assert.equal((await watched(traffic, otherGuest)).heldFrames, 1)
    await stage.attach(otherGuest)
    assert.deepEqual(await traffic.ensureFlowing(otherGuest, deliver), { delivered: 1, dropped: 2 })
    await traffic.inject(otherGuest, [aged(4, limits.heldFrameAgeMs + 1), aged(5, 0)])
    await given(stage, ['one', 'one'])
  })
}

function wantPromises(promise: Promised): void {
  promise('a packet of the source that counts wants the guest, since it came there', async (stage) => {
    const traffic = stage.daemon()
    const wanted = listen(traffic)
    await traffic.ensureHeld(otherGuest)
    const [one] = await held(stage, traffic, 'one')
    assert.ok(one !== undefined)
    await until(
      () => wanted,
      (all) => all.length > 0,
    )
    await traffic.inject(otherGuest, [{ ...one, number: 1, counts: false }])
    assert.equal((await watched(traffic, otherGuest)).wantedSinceMs, undefined)
    await traffic.inject(otherGuest, [{ ...one, number: 2, ageMs: limits.heldFrameAgeMs + 1 }])
    assert.equal((await watched(traffic, otherGuest)).wantedSinceMs, undefined, 'too old')
    await traffic.inject(otherGuest, [{ ...one, number: 3, ageMs: 5000 }])
    await stage.send(otherGuest, 'here')
    const { wantedSinceMs = 0, lastTrafficAtMs = 0 } = await watched(traffic, otherGuest)
    assert.ok(lastTrafficAtMs - wantedSinceMs >= 4900, `${lastTrafficAtMs - wantedSinceMs} ms`)
    assert.deepEqual(wanted, [guest.userId, otherGuest.userId], 'once')
    const again = listen(traffic)
    await until(
      () => again,
      (all) => all.includes(otherGuest.userId),
    )

    await traffic.ensureFlowing(otherGuest, { deliver: false })
    await traffic.ensureHeld(otherGuest)
    assert.equal((await watched(traffic, otherGuest)).wantedSinceMs, undefined)
  })
}
