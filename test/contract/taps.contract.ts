import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { tapDrift } from '../../src/core/network/tap.ts'
import type { TapSpec, TapState } from '../../src/core/network/tap.ts'
import type { DeviceName, MacAddress, UserId, VmId } from '../../src/core/vm/ids.ts'
import type { Taps } from '../../src/ports/network.ts'

/** Taps under test, those of another store on the same host, and what an administrator may do to them. */
export type TapsStage = {
  readonly taps: Taps
  readonly storeId: string
  readonly others: Taps
  /** A device that has nothing to do with us. */
  occupy(device: DeviceName): Promise<void> | void
  /** Is there any device of that name? */
  exists(device: DeviceName): Promise<boolean> | boolean
  delete(device: DeviceName): Promise<void> | void
  takeDown(device: DeviceName): Promise<void> | void
  flushNeighbours(device: DeviceName): Promise<void> | void
}

export const tapSpec: TapSpec = {
  device: 'vmt100001' as DeviceName,
  vmId: 'web-1' as VmId,
  userId: 100_001 as UserId,
  guestMac: '02:76:00:01:86:a1' as MacAddress,
  ipv4Address: '192.0.2.10',
  ipv6Address: '2001:db8::10',
}
export const otherSpec: TapSpec = {
  device: 'vmt100002' as DeviceName,
  vmId: 'web-2' as VmId,
  userId: 100_002 as UserId,
  guestMac: '02:76:00:01:86:a2' as MacAddress,
  ipv4Address: '192.0.2.11',
  ipv6Address: '2001:db8::11',
}

const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code

/** What every implementation of taps promises; `set` makes a stage and registers its own cleaning up. */
export function tapsContract(
  name: string,
  set: (t: TestContext) => Promise<TapsStage> | TapsStage,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: TapsStage) => Promise<void>): void => {
    test(`${name}: ${what}`, { skip: options.skip ?? false }, async (t) => body(await set(t)))
  }
  const look = ({ taps }: TapsStage, { device, vmId, userId }: TapSpec): Promise<TapState> =>
    taps.inspect(device, vmId, userId)
  const assertWhole = async (stage: TapsStage, spec: TapSpec): Promise<void> => {
    const state = await look(stage, spec)
    assert.equal(state.kind, 'present')
    assert.deepEqual(state.kind === 'present' && tapDrift(spec, state.facts), [])
  }

  promise('a tap that was never made is absent', async (stage) => {
    assert.deepEqual(await look(stage, tapSpec), { kind: 'absent' })
    assert.deepEqual(await stage.taps.list(), [])
  })

  promise("a tap is made with all it shall have, and is listed as this VM's", async (stage) => {
    await stage.taps.ensure(tapSpec)
    await assertWhole(stage, tapSpec)
    const { device, vmId: id } = tapSpec
    assert.deepEqual(await stage.taps.list(), [{ device, id, storeId: stage.storeId }])
  })

  promise('ensuring can be repeated', async (stage) => {
    await stage.taps.ensure(tapSpec)
    const before = await look(stage, tapSpec)
    await stage.taps.ensure(tapSpec)
    assert.deepEqual(await look(stage, tapSpec), before)
  })

  promise('taps of several VMs are made at the same time', async (stage) => {
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

  promise('new addresses and a new hardware address replace the old', async (stage) => {
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

  promise('an address that is routed to another tap is not taken from it', async (stage) => {
    await stage.taps.ensure(tapSpec)
    const thief = { ...otherSpec, ipv4Address: '192.0.2.10' }
    await assert.rejects(stage.taps.ensure(thief), isFault('network_failed'))
    await assertWhole(stage, tapSpec)
    await stage.taps.remove(tapSpec.device, tapSpec.vmId)
    await stage.taps.ensure(thief)
    await assertWhole(stage, thief)
  })

  promise('what somebody took away is put back', async (stage) => {
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

  promise('removing takes the tap and nothing else, and can be repeated', async (stage) => {
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
    const { device, userId } = tapSpec
    await stage.taps.ensure(tapSpec)
    assert.equal((await stage.taps.inspect(device, otherSpec.vmId, userId)).kind, 'foreign')
    await assert.rejects(stage.taps.ensure({ ...tapSpec, vmId: otherSpec.vmId }), isFault('tap_name_taken'))
    await stage.taps.remove(device, otherSpec.vmId)
    await assertWhole(stage, tapSpec)
  })

  promise('a tap of the same VM for another user is foreign', async (stage) => {
    await stage.taps.ensure(tapSpec)
    const state = await stage.taps.inspect(tapSpec.device, tapSpec.vmId, otherSpec.userId)
    assert.equal(state.kind, 'foreign')
  })

  promise('a tap of another store is foreign, and is listed with its store', async (stage) => {
    const { device, vmId: id, userId } = tapSpec
    await stage.others.ensure(tapSpec)
    assert.equal((await look(stage, tapSpec)).kind, 'foreign')
    await stage.taps.remove(device, id)
    assert.equal((await stage.others.inspect(device, id, userId)).kind, 'present')
    const [listed] = await stage.taps.list()
    assert.deepEqual({ device: listed?.device, id: listed?.id }, { device, id })
    assert.notEqual(listed?.storeId, stage.storeId)
  })
}
