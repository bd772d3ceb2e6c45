import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { movePromises } from './traffic-moves.contract.ts'
import { deliver, guest, has, isFault, listen, nothing, otherGuest, watched } from './traffic-stage.ts'
import { tapSpec } from './taps-stage.ts'
import { until } from './until.ts'
import type { UserId } from '../../src/core/ids.ts'
import type { Promised, TrafficStage } from './traffic-stage.ts'

/** Promises of every implementation of traffic; `set` makes a stage and registers its own clean-up. */
export function trafficContract(
  name: string,
  set: (t: TestContext) => Promise<TrafficStage> | TrafficStage,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: TrafficStage) => Promise<void>): void => {
    test(`${name}: ${what}`, { skip: options.skip ?? false }, async (t) => {
      const stage = await set(t)
      await stage.makeDevice(guest)
      await stage.makeDevice(otherGuest)
      await body(stage)
    })
  }
  watchPromises(promise)
  holdPromises(promise)
  wantedPromises(promise)
  watcherPromises(promise)
  lossPromises(promise)
  daemonPromises(promise)
  movePromises(promise)
}

function watchPromises(promise: Promised): void {
  promise('a device without a watch is unwatched, and so is a missing device', async (stage) => {
    const traffic = stage.daemon()
    assert.deepEqual(await traffic.inspect(guest), { kind: 'unwatched' })
    await traffic.ensureWatched(guest)
    await stage.deleteDevice(guest)
    assert.deepEqual(await traffic.inspect(guest), { kind: 'unwatched' })
    await assert.rejects(traffic.ensureWatched(guest), isFault)
    await assert.rejects(traffic.ensureHeld(guest), isFault)
    assert.deepEqual(await traffic.ensureFlowing(guest, deliver), nothing)
  })

  promise(
    'traffic that counts is counted for its guest alone, and other traffic is not counted',
    async (stage) => {
      const traffic = stage.daemon()
      await traffic.ensureWatched(guest)
      await traffic.ensureWatched(otherGuest)
      const { packets, lastTrafficAtMs, frames, heldFrames } = await watched(traffic)
      assert.deepEqual({ packets, lastTrafficAtMs, frames, heldFrames }, unheard)
      await stage.sendIgnored(guest, 'ignored')
      assert.equal((await watched(traffic)).packets, 0)
      await stage.send(guest, 'one')
      await stage.send(guest, 'two')
      const state = await watched(traffic)
      assert.equal(state.packets, 2)
      assert.equal(typeof state.lastTrafficAtMs, 'number')
      assert.equal((await watched(traffic, otherGuest)).packets, 0)
    },
  )

  promise('a guest is idle since its last packet, or since its idle time was restarted', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureWatched(guest)
    stage.pass(70_000)
    assert.ok((await watched(traffic)).idleMs >= 70_000)
    await traffic.ensureWatched(guest)
    assert.ok((await watched(traffic)).idleMs >= 70_000, 'the clock goes on')
    await stage.send(guest, 'one')
    await traffic.restart(guest)
    const { idleMs, packets } = await watched(traffic)
    assert.ok(idleMs < 60_000, `${idleMs} ms`)
    assert.equal(packets, 1, 'what was counted stays')
  })

  promise('a removed guest is forgotten, even if its device is gone', async (stage) => {
    const traffic = stage.daemon()
    for (const subject of [guest, otherGuest]) {
      await traffic.ensureWatched(subject)
      await stage.send(subject, 'one')
    }
    await stage.deleteDevice(guest)
    for (const subject of [guest, otherGuest]) await traffic.remove(subject)
    assert.deepEqual(await traffic.inspect(otherGuest), { kind: 'unwatched' })
    await stage.makeDevice(guest)
    for (const subject of [guest, otherGuest]) {
      await traffic.ensureWatched(subject)
      assert.equal((await watched(traffic, subject)).packets, 0)
    }
  })

  promise('a device is watched for its own guest', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureWatched(guest)
    const taken = { device: guest.device, userId: otherGuest.userId }
    assert.deepEqual(await traffic.inspect(taken), { kind: 'unwatched' })
    assert.deepEqual(await traffic.ensureFlowing(taken, deliver), nothing)
  })
}

const unheard = { packets: 0, lastTrafficAtMs: undefined, frames: 'flowing', heldFrames: 0 }

function holdPromises(promise: Promised): void {
  promise('frames are held and then delivered in order, and later frames pass directly', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(guest)
    for (const packet of ['one', 'two', 'three']) await stage.send(guest, packet)
    const held = await watched(traffic)
    assert.deepEqual([held.frames, held.heldFrames, held.packets], ['held', 3, 3])
    assert.equal(typeof held.wantedSinceMs, 'number')
    await stage.attach(guest)
    assert.deepEqual(await stage.given(guest), [])

    assert.deepEqual(await traffic.ensureFlowing(guest, deliver), { delivered: 3, dropped: 0 })
    const flowing = await watched(traffic)
    assert.deepEqual([flowing.frames, flowing.heldFrames], ['flowing', 0])
    assert.equal(flowing.wantedSinceMs, undefined)
    await stage.send(guest, 'four')
    const given = await until(
      async () => await stage.given(guest),
      (names) => names.length >= 4,
    )
    assert.deepEqual(given, ['one', 'two', 'three', 'four'])
    assert.deepEqual(await traffic.ensureFlowing(guest, deliver), nothing)
  })

  promise('holding can be repeated, and held frames stay held', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(guest)
    await stage.send(guest, 'one')
    await traffic.ensureHeld(guest)
    await traffic.ensureWatched(guest)
    const { heldFrames, wantedSinceMs, frames } = await watched(traffic)
    assert.deepEqual([frames, heldFrames, typeof wantedSinceMs], ['held', 1, 'number'])
  })
}

function wantedPromises(promise: Promised): void {
  promise(
    'only traffic that counts wants the guest; later traffic of any kind is held too',
    async (stage) => {
      const traffic = stage.daemon()
      const wanted = listen(traffic)
      await traffic.ensureHeld(guest)
      await stage.sendIgnored(guest, 'early')
      const { wantedSinceMs, heldFrames } = await watched(traffic)
      assert.deepEqual({ wantedSinceMs, heldFrames }, { wantedSinceMs: undefined, heldFrames: 0 })
      await stage.send(guest, 'one')
      await stage.sendIgnored(guest, 'late')
      await until(() => wanted, has(1))
      await stage.attach(guest)
      assert.equal((await traffic.ensureFlowing(guest, deliver)).delivered, 2)
      assert.deepEqual(await stage.given(guest), ['one', 'late'])
      assert.deepEqual(wanted, [guest.userId])
    },
  )

  promise('the packet that wants a guest is known while it waits, also to the next daemon', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(guest)
    await stage.sendIgnored(guest, 'early')
    assert.equal((await watched(traffic)).wantedBy, undefined)
    await stage.send(guest, 'one')
    stage.pass(1)
    await stage.send(guest, 'two')
    const { wantedBy } = await watched(traffic)
    const { protocol, destination, destinationPort, source, sourcePort } = wantedBy ?? assert.fail()
    assert.deepEqual([protocol, destination, destinationPort], ['udp', tapSpec.ipv4Address, 7])
    assert.deepEqual([typeof source, typeof sourcePort], ['string', 'number'])
    const after = stage.daemon()
    assert.deepEqual((await watched(after)).wantedBy, wantedBy)
    await after.keepHeldAfter(guest, 1)
    const { heldFrames, wantedBy: later } = await watched(after)
    assert.deepEqual([heldFrames, later], [1, undefined], 'a later packet is not the one')
  })
}

function watcherPromises(promise: Promised): void {
  promise('a guest is reported as wanted once for as long as its frames are held', async (stage) => {
    const traffic = stage.daemon()
    const wanted = listen(traffic)
    await traffic.ensureHeld(guest)
    await traffic.ensureHeld(otherGuest)
    await stage.send(guest, 'one')
    await stage.send(guest, 'two')
    await stage.send(otherGuest, 'one')
    await until(() => wanted, has(2))
    assert.deepEqual(new Set(wanted), new Set([guest.userId, otherGuest.userId]))
    assert.equal(wanted.length, 2)
    await traffic.ensureFlowing(guest, { deliver: false })
    await traffic.ensureHeld(guest)
    assert.equal((await watched(traffic)).wantedSinceMs, undefined)
    await stage.send(guest, 'three')
    await until(() => wanted, has(3))
    assert.deepEqual(wanted.slice(2), [guest.userId])
  })

  promise('a watcher that stopped watching is no longer notified', async (stage) => {
    const traffic = stage.daemon()
    const ended: UserId[] = []
    traffic.watch((userId) => ended.push(userId))()
    const wanted = listen(traffic)
    await traffic.ensureHeld(guest)
    await stage.send(guest, 'one')
    await until(() => wanted, has(1))
    assert.deepEqual(ended, [])
  })

  promise(
    'a watcher of one guest is notified of that guest alone, also if it is wanted already',
    async (stage) => {
      const traffic = stage.daemon()
      const [all, early, late] = [listen(traffic), listen(traffic, guest), listen(traffic, otherGuest)]
      await traffic.ensureHeld(guest)
      await traffic.ensureHeld(otherGuest)
      await stage.send(otherGuest, 'one')
      await stage.send(guest, 'one')
      await until(() => all, has(2))
      assert.deepEqual([early, late], [[guest.userId], [otherGuest.userId]])
      const after = listen(traffic, guest)
      await until(() => after, has(1))
      assert.deepEqual(after, [guest.userId])
    },
  )
}

function lossPromises(promise: Promised): void {
  promise('frames that were held for a guest that has ended are dropped and counted', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(guest)
    await stage.send(guest, 'one')
    await stage.attach(guest)
    const dropped = await traffic.ensureFlowing(guest, { deliver: false })
    assert.deepEqual(dropped, { delivered: 0, dropped: 1 })
    assert.equal((await watched(traffic)).frames, 'flowing')
    assert.deepEqual(await stage.given(guest), [])
  })

  promise('held frames stay within the bound, and dropped ones are counted', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(guest)
    await traffic.ensureHeld(otherGuest)
    const names = Array.from({ length: limits.heldFramesMax + 3 }, (_, at) => `packet ${at}`)
    for (const packet of names) await stage.send(guest, packet)
    await stage.send(otherGuest, 'one')
    assert.equal((await watched(traffic)).heldFrames, limits.heldFramesMax)
    assert.equal((await watched(traffic, otherGuest)).heldFrames, 1, 'another guest has room of its own')
    await stage.attach(guest)
    const delivery = await traffic.ensureFlowing(guest, deliver)
    assert.deepEqual(delivery, { delivered: limits.heldFramesMax, dropped: 3 })
    assert.deepEqual(await stage.given(guest), names.slice(0, limits.heldFramesMax))
  })

  promise('frames that waited too long make room, and are not delivered', async (stage) => {
    const traffic = stage.daemon()
    await traffic.ensureHeld(guest)
    await stage.send(guest, 'one')
    stage.pass(limits.heldFrameAgeMs + 1)
    const state = await watched(traffic)
    assert.equal(state.heldFrames, 0)
    assert.equal(typeof state.wantedSinceMs, 'number', 'the guest is still wanted')
    await stage.attach(guest)
    assert.deepEqual(await traffic.ensureFlowing(guest, deliver), { delivered: 0, dropped: 1 })
    assert.deepEqual(await stage.given(guest), [])
  })
}

function daemonPromises(promise: Promised): void {
  promise('counting continues while no daemon runs', async (stage) => {
    const before = stage.daemon()
    await before.ensureWatched(guest)
    await stage.send(guest, 'one')
    const after = stage.daemon()
    await stage.send(guest, 'two')
    assert.equal((await watched(after)).packets, 2)
  })

  promise(
    'the next daemon hears which guests are wanted, and delivers what the previous one held',
    async (stage) => {
      const before = stage.daemon()
      const reportedBefore = listen(before)
      await before.ensureHeld(guest)
      await before.ensureHeld(otherGuest)
      for (const packet of ['one', 'two']) await stage.send(guest, packet)
      await stage.send(otherGuest, 'other one')
      await until(() => reportedBefore, has(2))
      await stage.attach(otherGuest)
      assert.equal((await before.ensureFlowing(otherGuest, deliver)).delivered, 1)

      const after = stage.daemon()
      const wanted = listen(after)
      await until(() => wanted, has(1))
      assert.deepEqual(wanted, [guest.userId])
      assert.equal((await watched(after)).heldFrames, 2)
      await stage.send(guest, 'three')
      await stage.attach(guest)
      assert.deepEqual(await after.ensureFlowing(guest, deliver), { delivered: 3, dropped: 0 })
      assert.deepEqual(await stage.given(guest), ['one', 'two', 'three'])
      assert.deepEqual(await stage.given(otherGuest), ['other one'], 'what was given is not given again')
    },
  )

  promise('the next daemon hears of a guest that sleeps again, when it is wanted', async (stage) => {
    const before = stage.daemon()
    const reportedBefore = listen(before)
    await before.ensureHeld(guest)
    await stage.send(guest, 'waits all the while')
    await before.ensureHeld(otherGuest)
    await stage.send(otherGuest, 'one')
    await until(() => reportedBefore, has(2))
    await before.ensureFlowing(otherGuest, { deliver: false })
    await before.ensureHeld(otherGuest)

    const after = stage.daemon()
    const wanted = listen(after)
    await until(() => wanted, has(1))
    assert.deepEqual(wanted, [guest.userId])
    assert.equal((await watched(after, otherGuest)).wantedSinceMs, undefined)
    await stage.send(otherGuest, 'two')
    await until(() => wanted, has(2))
    assert.deepEqual(wanted, [guest.userId, otherGuest.userId])
  })
}
