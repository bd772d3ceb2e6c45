import assert from 'node:assert/strict'
import { GATEWAY_MAC, tapDrift } from '../../src/core/network/tap.ts'
import { assertWhole, isFault, look, otherSpec, tapSpec } from './taps-stage.ts'
import type { DeviceName } from '../../src/core/ids.ts'
import type { TapMaking } from '../../src/core/world/network-state.ts'
import type { TapsStage } from './taps-stage.ts'

const isAttached = async (stage: TapsStage): Promise<boolean> => {
  const state = await look(stage, tapSpec)
  assert.ok(state.kind === 'present')
  return state.facts.attached
}

const taken: readonly (readonly [change: Partial<TapMaking>, drift: readonly string[]])[] = [
  [{ owner: 0 }, ['it belongs to user 0, not 100001']],
  [{ group: 7 }, ['only group 7 may attach to it']],
  [
    { macAddress: tapSpec.guestMac },
    [
      `hardware address is ${tapSpec.guestMac}, not ${GATEWAY_MAC}`,
      // The kernel forgets the neighbours of a device that gets another address.
      'no permanent neighbour 192.0.2.10',
      'no permanent neighbour 2001:db8::10',
    ],
  ],
]

/** Promises of every implementation of taps about the monitors that hold them. */
export function tapMonitorsContract(
  promise: (what: string, body: (stage: TapsStage) => Promise<void>) => void,
): void {
  promise('a tap shows whether a monitor holds it', async (stage) => {
    await stage.taps.ensure(tapSpec)
    assert.equal(await isAttached(stage), false)
    const pid = await stage.startMonitor(tapSpec)
    assert.equal(await isAttached(stage), true)
    await stage.taps.ensureAttached(tapSpec, pid)
    await stage.takeDown(tapSpec.device)
    assert.equal(await isAttached(stage), true)
    await stage.endMonitor(tapSpec)
    assert.equal(await isAttached(stage), false)
  })

  promise('a monitor whose tap was deleted gets the new one', async (stage) => {
    await stage.taps.ensure(tapSpec)
    const pid = await stage.startMonitor(tapSpec)
    for (let times = 0; times < 2; times++) {
      await stage.delete(tapSpec.device)
      await stage.taps.ensure(tapSpec)
      assert.equal(await isAttached(stage), false)
      await stage.taps.ensureAttached(tapSpec, pid)
      await stage.taps.ensureAttached(tapSpec, pid)
      assert.equal(await isAttached(stage), true)
      await assertWhole(stage, tapSpec)
    }
    await stage.endMonitor(tapSpec)
    assert.equal(await isAttached(stage), false)
  })

  promise('a tap that somebody renamed goes, and its monitor gets the new one', async (stage) => {
    const elsewhere = 'elsewhere0' as DeviceName
    const { ipv4Address: _4, ...ipv6Only } = tapSpec
    const { ipv6Address: _6, ...ipv4Only } = tapSpec
    for (const spec of [{ ...tapSpec, ipv6Prefix: '2001:db8:1::/64' }, ipv6Only, ipv4Only]) {
      await stage.taps.ensure(spec)
      const pid = await stage.startMonitor(spec)
      await stage.rename(spec.device, elsewhere)
      assert.deepEqual(await look(stage, spec), { kind: 'absent' })
      await stage.taps.ensure(spec)
      assert.equal(await stage.exists(elsewhere), false)
      await stage.taps.ensureAttached(spec, pid)
      assert.equal(await isAttached(stage), true)
      await assertWhole(stage, spec)
      await stage.endMonitor(spec)
    }
  })

  promise('a tap that its monitor changed is made again, and the monitor gets it', async (stage) => {
    const limited = { ...tapSpec, bandwidth: { receiveMbitPerSecond: 20, transmitMbitPerSecond: 10 } }
    for (const [change, drift] of taken) {
      await stage.taps.ensure(limited)
      const pid = await stage.startMonitor(limited)
      await stage.changeByMonitor(limited, change)
      const state = await look(stage, limited)
      assert.deepEqual(state.kind === 'present' && tapDrift(limited, state.facts), drift)
      await stage.taps.ensure(limited)
      await assertWhole(stage, limited)
      assert.equal(await isAttached(stage), false)
      await stage.taps.ensureAttached(limited, pid)
      assert.equal(await isAttached(stage), true)
      await assertWhole(stage, limited)
      await stage.endMonitor(limited)
    }
  })

  promise('a tap that its monitor changed is given to the next monitor, and is removed', async (stage) => {
    for (const [change] of taken) {
      await stage.taps.ensure(tapSpec)
      await stage.startMonitor(tapSpec)
      await stage.changeByMonitor(tapSpec, change)
      await stage.endMonitor(tapSpec)
      await stage.taps.ensure(tapSpec)
      await assertWhole(stage, tapSpec)
      await stage.startMonitor(tapSpec)
      assert.equal(await isAttached(stage), true)
      await stage.changeByMonitor(tapSpec, change)
      await stage.endMonitor(tapSpec)
      await stage.taps.remove(tapSpec.device, tapSpec.vmId)
      assert.deepEqual(await look(stage, tapSpec), { kind: 'absent' })
    }
  })

  promise('a process that is gone, or is not the monitor of the VM, is given no device', async (stage) => {
    await assert.rejects(stage.taps.ensureAttached(tapSpec, 2 ** 22), isFault('network_failed'))
    await stage.taps.ensure(tapSpec)
    await stage.taps.ensure(otherSpec)
    const other = await stage.startMonitor(otherSpec)
    for (const pid of [other, 2 ** 22]) {
      await assert.rejects(stage.taps.ensureAttached(tapSpec, pid), isFault('monitor_detached'))
    }
    assert.equal(await isAttached(stage), false)
  })
}
