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
  for (const device of ['vmt100001', 'vmt100002', 'vmq100001', 'elsewhere0', 'br0'])
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
    rename: async (device, name) => {
      await ip('link', 'set', device, 'name', name)
    },
    takeDown: async (device: DeviceName) => {
      await ip('link', 'set', device, 'down')
    },
    bridge: async (device: DeviceName) => {
      await ip('link', 'add', 'br0', 'type', 'bridge')
      await ip('link', 'set', device, 'master', 'br0')
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

const prefix = '2001:db8:1::/64'

async function addLan(t: TestContext): Promise<void> {
  await ip('link', 'add', 'lan0', 'type', 'veth', 'peer', 'name', 'lan1')
  atEnd(t, () => ip('link', 'del', 'lan0'))
  await ip('addr', 'add', '198.51.100.1/24', 'dev', 'lan0')
  await ip('link', 'set', 'lan0', 'up')
}

/** Routes of an administrator, with what they lead to. */
const routes: readonly (readonly [destination: string, where: string, name?: string])[] = [
  ['192.0.2.10', 'dev lan0'],
  ['192.0.2.10', 'via 198.51.100.7 metric 100 proto static'],
  ['192.0.2.10', 'nexthop dev lan0 nexthop via 198.51.100.7', 'by several links'],
  ['2001:db8::10', 'dev lan0 metric 1'],
  ['2001:db8::10', 'dev lan0 metric 7'],
  ['2001:db8::10', 'dev lan0 metric 2048'],
  [prefix, 'dev lan0 metric 1'],
  [prefix, 'dev lan0 metric 7'],
  [prefix, 'dev lan0 metric 2048'],
]

for (const [destination, where, by = 'by lan0'] of routes) {
  test(`a route to ${destination} ${where} is a fault that names it`, { skip }, async (t) => {
    const taps = new RoutedTaps({ storeId: 'store-1' })
    atEnd(t, () => taps.close())
    atEnd(t, () => taps.remove(tapSpec.device, tapSpec.vmId))
    await addLan(t)
    const routed = { ...tapSpec, ipv6Prefix: prefix }
    await ip('route', 'add', destination, ...where.split(' '))
    await assert.rejects(taps.ensure(routed), {
      code: 'network_failed',
      message:
        `routing ${destination} to the guest of VM web-1: this host has a route to it ${by}: ` +
        `remove that route, or give the VM another ${destination === prefix ? 'prefix' : 'address'}`,
    })
    await ip('route', 'del', destination, ...where.split(' '))
    await taps.ensure(routed)
  })
}

test('a route that throws away what comes for a guest is a fault that names it', { skip }, async (t) => {
  const taps = new RoutedTaps({ storeId: 'store-1' })
  atEnd(t, () => taps.close())
  atEnd(t, () => taps.remove(tapSpec.device, tapSpec.vmId))
  await ip('route', 'add', 'blackhole', '192.0.2.10')
  await assert.rejects(taps.ensure(tapSpec), {
    code: 'network_failed',
    message:
      'routing 192.0.2.10 to the guest of VM web-1: this host has a route to it that refuses packets: ' +
      'remove that route, or give the VM another address',
  })
  await ip('route', 'del', 'blackhole', '192.0.2.10')
  await taps.ensure(tapSpec)
})

test('a route that a routing daemon learned is passed over, and the tap comes first', { skip }, async (t) => {
  const taps = new RoutedTaps({ storeId: 'store-1' })
  atEnd(t, () => taps.close())
  atEnd(t, () => taps.remove(tapSpec.device, tapSpec.vmId))
  await addLan(t)
  const routed = { ...tapSpec, ipv6Prefix: prefix }
  const learned = ['dev', 'lan0', 'metric', '20', 'proto', 'bgp']
  for (const destination of ['192.0.2.10', '2001:db8::10', prefix])
    await ip('route', 'add', destination, ...learned)
  await taps.ensure(routed)
  for (const address of ['192.0.2.10', '2001:db8::10', '2001:db8:1::7'])
    assert.match(await ip('route', 'get', address), / dev vmt100001 /)
})
