import { skip } from './own-netns.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { run } from '../../src/host/exec/exec.ts'
import { atEnd } from '../contract/at-end.ts'
import { tapsContract } from '../contract/taps.contract.ts'
import { holdTap, isSettled } from './hold-tap.ts'
import type { Holder } from './hold-tap.ts'
import type { DeviceName, VmId } from '../../src/core/ids.ts'

const ip = async (...args: string[]): Promise<string> => (await run(['ip', ...args])).stdout

tapsContract(
  'routed taps',
  (t) => {
    const taps = new RoutedTaps({ storeId: 'store-1' })
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
      endMonitor: async ({ vmId }) => holders.get(vmId)?.end(),
    }
  },
  { skip },
)
