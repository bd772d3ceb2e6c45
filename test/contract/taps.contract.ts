import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { tapDrift } from '../../src/core/network/tap.ts'
import { tapSettings } from '../../src/core/network/tap-settings.ts'
import type { DeviceName, MacAddress } from '../../src/core/ids.ts'
import { assertWhole, isFault, look, otherSpec, tapSpec } from './taps-stage.ts'
import { tapMonitorsContract } from './tap-monitors.contract.ts'
import { until } from './until.ts'
import type { TapsStage } from './taps-stage.ts'

/** Promises of every implementation of taps; `set` makes a stage and registers its own clean-up. */
export function tapsContract(
  name: string,
  set: (t: TestContext) => Promise<TapsStage> | TapsStage,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: TapsStage) => Promise<void>): void => {
    test(`${name}: ${what}`, { skip: options.skip ?? false }, async (t) => body(await set(t)))
  }
  tapMonitorsContract(promise)

  promise('a tap that was never made is absent', async (stage) => {
    assert.deepEqual(await look(stage, tapSpec), { kind: 'absent' })
    assert.deepEqual(await stage.taps.list(), [])
  })

  promise("a new tap has all its settings, and is listed as this VM's", async (stage) => {
    await stage.taps.ensure(tapSpec)
    await assertWhole(stage, tapSpec)
    const { device, vmId: id } = tapSpec
    assert.deepEqual(await stage.taps.list(), [{ device, id, storeId: stage.storeId }])
  })

  promise('ensuring a tap can be repeated', async (stage) => {
    await stage.taps.ensure(tapSpec)
    const before = await look(stage, tapSpec)
    await stage.taps.ensure(tapSpec)
    assert.deepEqual(await look(stage, tapSpec), before)
  })

  promise('a setting that another program changed is seen and repaired', async (stage) => {
    await stage.taps.ensure(tapSpec)
    for (const [setting, value] of tapSettings(tapSpec)) {
      const other = value === 0 ? 1 : 0
      await stage.changeSetting(tapSpec.device, setting, other)
      const state = await look(stage, tapSpec)
      const drift = state.kind === 'present' ? tapDrift(tapSpec, state.facts) : []
      assert.ok(drift.includes(`${setting} is ${other}, not ${value}`), `${setting}: ${drift.join()}`)
      await stage.taps.ensure(tapSpec)
      await assertWhole(stage, tapSpec)
    }
  })

  promise('taps of several VMs can be made at the same time', async (stage) => {
    await Promise.all([stage.taps.ensure(tapSpec), stage.taps.ensure(otherSpec)])
    await assertWhole(stage, tapSpec)
    await assertWhole(stage, otherSpec)
    assert.equal((await stage.taps.list()).length, 2)
  })

  promise('a guest may have one address family, or none', async (stage) => {
    const { ipv4Address: _4, ...ipv6Only } = tapSpec
    const { ipv6Address: _6, ...none } = ipv6Only
    await stage.taps.ensure(ipv6Only)
    await assertWhole(stage, ipv6Only)
    await stage.taps.ensure(none)
    await assertWhole(stage, none)
    const state = await look(stage, none)
    assert.deepEqual(state.kind === 'present' && state.facts.neighbours, [])
  })

  promise('a family that comes later is added', async (stage) => {
    const { ipv6Address: _, ...ipv4Only } = tapSpec
    await stage.taps.ensure(ipv4Only)
    await assertWhole(stage, ipv4Only)
    await stage.taps.ensure(tapSpec)
    await assertWhole(stage, tapSpec)
  })

  promise('new addresses and a new hardware address replace the old ones', async (stage) => {
    await stage.taps.ensure(tapSpec)
    const moved = {
      ...tapSpec,
      ipv4Address: '192.0.2.20',
      ipv6Address: '2001:db8::20',
      guestMac: '02:76:00:00:00:20' as MacAddress,
    }
    await stage.taps.ensure(moved)
    await assertWhole(stage, moved)
  })

  promise('an address can move from one tap to another', async (stage) => {
    await stage.taps.ensure(tapSpec)
    await stage.taps.ensure({ ...tapSpec, ipv4Address: '192.0.2.20', ipv6Address: '2001:db8::20' })
    const taker = { ...otherSpec, ipv4Address: '192.0.2.10', ipv6Address: '2001:db8::10' }
    await stage.taps.ensure(taker)
    await assertWhole(stage, taker)
  })

  promise('a prefix is routed to the guest, changes, moves to another tap, and goes', async (stage) => {
    const routed = { ...tapSpec, ipv6Prefix: '2001:db8:1::/64' }
    for (const spec of [
      routed,
      { ...routed, ipv6Address: '2001:db8::20' },
      { ...routed, ipv6Prefix: '2001:db8:2::/56' },
    ]) {
      await stage.taps.ensure(spec)
      await assertWhole(stage, spec)
    }
    const taker = { ...otherSpec, ipv6Prefix: '2001:db8:2::/56' }
    await assert.rejects(stage.taps.ensure(taker), isFault('network_failed'))
    await stage.taps.ensure(tapSpec)
    await assertWhole(stage, tapSpec)
    await stage.taps.ensure(taker)
    await assertWhole(stage, taker)
  })

  promise('an address that is routed to another tap is not taken from it', async (stage) => {
    await stage.taps.ensure(tapSpec)
    const thief = { ...otherSpec, ipv4Address: '192.0.2.10' }
    await assert.rejects(stage.taps.ensure(thief), {
      code: 'network_failed',
      retry: 'soon',
      message: 'routing 192.0.2.10 to the guest of VM web-2: another VM still has it on vmt100001',
    })
    await assertWhole(stage, tapSpec)
    await stage.taps.remove(tapSpec.device, tapSpec.vmId)
    await stage.taps.ensure(thief)
    await assertWhole(stage, thief)
  })

  promise('another VM of the same id, whose record is not here, keeps its tap', async (stage) => {
    const newer = { ...tapSpec, device: otherSpec.device, userId: otherSpec.userId }
    await stage.taps.ensure(newer)
    await assert.rejects(stage.taps.ensure(tapSpec), isFault('network_failed'))
    await assertWhole(stage, newer)
    await stage.taps.remove(newer.device, newer.vmId)
  })

  promise('a setting that somebody removed is put back', async (stage) => {
    await stage.taps.ensure(tapSpec)
    await stage.flushNeighbours(tapSpec.device)
    const flushed = await look(stage, tapSpec)
    assert.deepEqual(flushed.kind === 'present' && tapDrift(tapSpec, flushed.facts), [
      'no permanent neighbour 192.0.2.10',
      'no permanent neighbour 2001:db8::10',
    ])
    await stage.taps.ensure(tapSpec)
    await assertWhole(stage, tapSpec)

    await stage.takeDown(tapSpec.device)
    const down = await look(stage, tapSpec)
    assert.equal(down.kind === 'present' && tapDrift(tapSpec, down.facts).includes('link is down'), true)
    await stage.taps.ensure(tapSpec)
    await assertWhole(stage, tapSpec)

    await stage.delete(tapSpec.device)
    assert.deepEqual(await look(stage, tapSpec), { kind: 'absent' })
    await stage.taps.ensure(tapSpec)
    await assertWhole(stage, tapSpec)
  })

  promise('a tap that somebody made a port of a bridge is taken out of it', async (stage) => {
    await stage.taps.ensure(tapSpec)
    await stage.settled(tapSpec.device)
    await stage.startMonitor(tapSpec)
    await look(stage, tapSpec)
    const heard: (DeviceName | undefined)[] = []
    stage.taps.watch((changed) => heard.push(changed))
    await stage.bridge(tapSpec.device)
    await until(
      () => heard,
      (devices) => devices.includes(tapSpec.device),
    )
    const bridged = await look(stage, tapSpec)
    assert.deepEqual(bridged.kind === 'present' && tapDrift(tapSpec, bridged.facts), [
      'it is a member of br0',
    ])
    await stage.taps.ensure(tapSpec)
    await assertWhole(stage, tapSpec)
    const freed = await look(stage, tapSpec)
    assert.ok(freed.kind === 'present' && freed.facts.attached, 'its monitor keeps it')
  })

  const bandwidthOf = async (stage: TapsStage): Promise<unknown> => {
    const state = await look(stage, tapSpec)
    return state.kind === 'present' ? state.facts.bandwidth : state
  }
  const limits = { receiveMbitPerSecond: 20, transmitMbitPerSecond: 10 }

  promise('limits come into force, change and go, each direction by itself', async (stage) => {
    await stage.taps.ensure(tapSpec)
    assert.deepEqual(await bandwidthOf(stage), {})
    for (const bandwidth of [
      limits,
      { receiveMbitPerSecond: 1, transmitMbitPerSecond: 100_000 },
      { receiveMbitPerSecond: 300 },
      { transmitMbitPerSecond: 7 },
      { receiveMbitPerSecond: 7 },
      {},
    ]) {
      await stage.taps.ensure({ ...tapSpec, bandwidth })
      assert.deepEqual(await bandwidthOf(stage), bandwidth)
      await assertWhole(stage, { ...tapSpec, bandwidth })
    }
    await stage.taps.ensure({ ...tapSpec, bandwidth: limits })
    await stage.taps.ensure(tapSpec)
    await assertWhole(stage, tapSpec)
  })

  promise('limits that somebody removed are missed and put back', async (stage) => {
    const limited = { ...tapSpec, bandwidth: limits }
    await stage.taps.ensure(limited)
    await stage.removeLimits(tapSpec.device)
    assert.deepEqual(await bandwidthOf(stage), {})
    await stage.taps.ensure(limited)
    await assertWhole(stage, limited)
  })

  promise('half a limit, which lets nothing through, is reported as such and repaired', async (stage) => {
    for (const bandwidth of [limits, {}]) {
      await stage.taps.ensure({ ...tapSpec, bandwidth: limits })
      await stage.removeLimits(tapSpec.device, 'half of the transmit limit')
      assert.deepEqual(await bandwidthOf(stage), { ...limits, transmitMbitPerSecond: 0 })
      await stage.taps.ensure({ ...tapSpec, bandwidth })
      await assertWhole(stage, { ...tapSpec, bandwidth })
    }
  })

  promise('a tap with limits that was deleted comes back with them', async (stage) => {
    const limited = { ...tapSpec, bandwidth: limits }
    await stage.taps.ensure(limited)
    await stage.delete(tapSpec.device)
    assert.deepEqual(await look(stage, limited), { kind: 'absent' })
    await stage.taps.ensure(limited)
    await assertWhole(stage, limited)
  })

  promise('the counters of a tap are reported, and those of other devices are not', async (stage) => {
    await stage.taps.ensure(tapSpec)
    const counters = await stage.taps.counters(tapSpec.device)
    assert.deepEqual(
      { ...counters, receiveDroppedPackets: 0, receiveLimitedPackets: 0 },
      {
        receivedBytes: 0,
        receivedPackets: 0,
        transmittedBytes: 0,
        transmittedPackets: 0,
        receiveDroppedPackets: 0,
        receiveLimitedPackets: 0,
        transmitDroppedPackets: 0,
      },
    )
    assert.ok(counters.receiveLimitedPackets <= counters.receiveDroppedPackets)
    await assert.rejects(stage.taps.counters(otherSpec.device), isFault('network_failed'))
    await stage.others.ensure(otherSpec)
    await assert.rejects(stage.taps.counters(otherSpec.device), isFault('network_failed'))
  })

  promise(
    'a change to a tap notifies its watcher, and a change to another device does not',
    async (stage) => {
      const heard: (DeviceName | undefined)[] = []
      const isReported = async (act: () => Promise<void> | void): Promise<void> => {
        heard.length = 0
        await act()
        await until(
          () => heard,
          (devices) => devices.includes(tapSpec.device),
        )
      }
      const { device, vmId } = tapSpec
      const limited = { ...tapSpec, bandwidth: limits }
      stage.taps.watch((changed) => heard.push(changed))
      await isReported(() => stage.taps.ensure(limited))
      await isReported(() => stage.flushNeighbours(device))
      await isReported(() => stage.takeDown(device))
      await isReported(() => stage.taps.ensure(limited))
      await isReported(() => stage.removeLimits(device))
      await isReported(() => stage.taps.ensure(limited))
      await isReported(() => stage.removeLimits(device, 'half of the transmit limit'))
      await isReported(async () => {
        await stage.startMonitor(tapSpec)
      })
      await isReported(() => stage.delete(device))
      await stage.occupy('elsewhere0' as DeviceName)
      await stage.delete('elsewhere0' as DeviceName)
      await isReported(() => stage.taps.ensure(tapSpec))
      await isReported(() => stage.taps.remove(device, vmId))
      assert.deepEqual(new Set(heard), new Set([device]))
    },
  )

  promise('a correct tap is not changed, and no watcher is notified', async (stage) => {
    const limited = { ...tapSpec, bandwidth: limits }
    await stage.taps.ensure(limited)
    await stage.settled(tapSpec.device)
    const heard: (DeviceName | undefined)[] = []
    stage.taps.watch((changed) => heard.push(changed))
    await stage.taps.ensure(limited)
    await look(stage, limited)
    await stage.taps.counters(tapSpec.device)
    await stage.taps.ensure(otherSpec)
    await until(
      () => heard,
      (devices) => devices.includes(otherSpec.device),
    )
    assert.equal(heard.includes(tapSpec.device), false)
  })

  promise('removal takes the tap and nothing else, and can be repeated', async (stage) => {
    await stage.taps.ensure(tapSpec)
    await stage.taps.ensure(otherSpec)
    await stage.taps.remove(tapSpec.device, tapSpec.vmId)
    await stage.taps.remove(tapSpec.device, tapSpec.vmId)
    assert.deepEqual(await look(stage, tapSpec), { kind: 'absent' })
    await assertWhole(stage, otherSpec)
  })

  promise('a device of someone else is foreign, is not taken, and is not removed', async (stage) => {
    const { device, vmId } = tapSpec
    await stage.occupy(device)
    assert.equal((await look(stage, tapSpec)).kind, 'foreign')
    await assert.rejects(stage.taps.ensure(tapSpec), isFault('tap_name_taken'))
    await stage.taps.remove(device, vmId)
    assert.equal(await stage.exists(device), true)
    assert.deepEqual(await stage.taps.list(), [])
  })

  promise('a tap of another VM is foreign', async (stage) => {
    const { device } = tapSpec
    await stage.taps.ensure(tapSpec)
    assert.equal((await stage.taps.inspect(device, otherSpec.vmId)).kind, 'foreign')
    await assert.rejects(stage.taps.ensure({ ...tapSpec, vmId: otherSpec.vmId }), isFault('tap_name_taken'))
    await stage.taps.remove(device, otherSpec.vmId)
    await assertWhole(stage, tapSpec)
  })

  promise('a tap of another store is foreign, and is listed with its store', async (stage) => {
    const { device, vmId: id } = tapSpec
    await stage.others.ensure(tapSpec)
    assert.equal((await look(stage, tapSpec)).kind, 'foreign')
    await stage.taps.remove(device, id)
    assert.equal((await stage.others.inspect(device, id)).kind, 'present')
    const [listed] = await stage.taps.list()
    assert.deepEqual({ device: listed?.device, id: listed?.id }, { device, id })
    assert.notEqual(listed?.storeId, stage.storeId)
  })
}
