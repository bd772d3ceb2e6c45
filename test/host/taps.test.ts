import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { run } from './run.ts'
import { Rtnetlink } from '../../src/host/netlink/rtnetlink.ts'
import { atEnd } from '../contract/at-end.ts'
import { tapSpec } from '../contract/taps-stage.ts'
import { tapsContract } from '../contract/taps.contract.ts'
import { holdTap, isSettled } from './hold-tap.ts'
import type { Holder } from './hold-tap.ts'
import type { DeviceName, VmId } from '../../src/core/ids.ts'
import type { TapState } from '../../src/core/world/network-state.ts'
import type { TapsStage } from '../contract/taps-stage.ts'
import type { TestContext } from 'node:test'

const ip = async (...args: string[]): Promise<string> => (await run(['ip', ...args])).stdout

/** Taps whose every look comes after so many others that all routes and neighbours are read at once. */
class LookedAtOften extends RoutedTaps {
  override async inspect(...args: Parameters<RoutedTaps['inspect']>): Promise<TapState> {
    for (let look = 0; look < limits.linkLooksUnchanged; look += 1) await super.inspect(...args)
    return super.inspect(...args)
  }
}

test(
  'a tap is read once when it is ensured, and what is on it only if it was there before',
  { skip },
  async (t) => {
    const taps = new RoutedTaps({ storeId: 'store-1' })
    atEnd(t, () => taps.close())
    atEnd(t, () => taps.remove(tapSpec.device, tapSpec.vmId))
    const neighbours = t.mock.method(Rtnetlink.prototype, 'permanentNeighbours')
    await taps.ensure(tapSpec)
    assert.equal(neighbours.mock.callCount(), 0, 'nothing is on a new tap')
    const link = t.mock.method(Rtnetlink.prototype, 'link')
    await taps.ensure(tapSpec)
    assert.equal(neighbours.mock.callCount(), 1)
    const names = link.mock.calls.map((call) => call.arguments[0])
    assert.equal(names.filter((name) => name === tapSpec.device).length, 1)
  },
)

for (const [name, make] of [
  ['routed taps', () => new RoutedTaps({ storeId: 'store-1' })],
  [
    'routed taps that are looked at often',
    () => {
      const taps = new LookedAtOften({ storeId: 'store-1' })
      taps.watch(() => {})
      return taps
    },
  ],
] as const)
  tapsContract(name, (t) => stageOf(t, make()), { skip })

function stageOf(t: TestContext, taps: RoutedTaps): TapsStage {
  const others = new RoutedTaps({ storeId: 'store-2' })
  const holders = new Map<VmId, Holder>()
  for (const device of ['vmt100001', 'vmt100002', 'vmq100001'])
    atEnd(t, () => run(['ip', 'link', 'del', device], { okCodes: [0, 1] }))
  atEnd(t, () => others.close())
  atEnd(t, () => taps.close())
  return {
    taps,
    storeId: 'store-1',
    others,
    occupy: async (device: DeviceName) => {
      await ip('link', 'add', device, 'type', 'veth', 'peer', 'name', 'peer0')
    },
    exists: async (device: DeviceName) => (await ip('-br', 'link')).includes(device),
    delete: async (device: DeviceName) => {
      await ip('link', 'del', device)
    },
    takeDown: async (device: DeviceName) => {
      await ip('link', 'set', device, 'down')
    },
    changeSetting: (device, name, value) =>
      writeFileSync(`/proc/sys/net/${name.replace('/', `/conf/${device}/`)}`, String(value)),
    flushNeighbours: async (device: DeviceName) => {
      await ip('-4', 'neigh', 'flush', 'dev', device, 'nud', 'permanent')
      await ip('-6', 'neigh', 'flush', 'dev', device, 'nud', 'permanent')
    },
    removeLimits: async (device, part) => {
      if (part === undefined) {
        await run(['tc', 'qdisc', 'del', 'dev', device, 'root'])
        await run(['tc', 'filter', 'del', 'dev', device, 'ingress'])
      } else await ip('link', 'del', device.replace('vmt', 'vmq'))
    },
    startMonitor: async (spec) => {
      const holder = await holdTap(t, spec)
      holders.set(spec.vmId, holder)
      return holder.pid
    },
    settled: isSettled,
    changeByMonitor: async ({ vmId }, change) => holders.get(vmId)?.change(change),
    endMonitor: async ({ vmId }) => holders.get(vmId)?.end(),
  }
}

for (const [what, metric] of [
  ['with the same metric', '1024'],
  ['that is preferred', '7'],
  ['that is not preferred', '2048'],
] as const) {
  test(
    `a prefix that the host routes elsewhere is a fault that names the route ${what}`,
    { skip },
    async (t) => {
      const taps = new RoutedTaps({ storeId: 'store-1' })
      atEnd(t, () => taps.close())
      atEnd(t, () => taps.remove(tapSpec.device, tapSpec.vmId))
      await ip('link', 'add', 'lan0', 'type', 'veth', 'peer', 'name', 'lan1')
      atEnd(t, () => ip('link', 'del', 'lan0'))
      await ip('link', 'set', 'lan0', 'up')
      const routed = { ...tapSpec, ipv6Prefix: '2001:db8:1::/64' }
      await ip('-6', 'route', 'add', routed.ipv6Prefix, 'dev', 'lan0', 'metric', metric)
      await assert.rejects(taps.ensure(routed), {
        code: 'network_failed',
        message:
          'routing 2001:db8:1::/64 to the guest of VM web-1: this host has a route to it by lan0: ' +
          'remove that route, or give the VM another prefix',
      })
      await ip('-6', 'route', 'del', routed.ipv6Prefix, 'dev', 'lan0')
      await taps.ensure(routed)
    },
  )
}
