import { skip } from './own-netns.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { run } from '../../src/host/exec/exec.ts'
import { tapsContract } from '../contract/taps.contract.ts'
import type { DeviceName } from '../../src/core/vm/ids.ts'

const ip = async (...args: string[]): Promise<string> => (await run(['ip', ...args])).stdout

tapsContract(
  'routed taps',
  (t) => {
    const taps = new RoutedTaps({ storeId: 'store-1' })
    const others = new RoutedTaps({ storeId: 'store-2' })
    t.after(async () => {
      taps.close()
      others.close()
      for (const device of ['vmt100001', 'vmt100002'])
        await run(['ip', 'link', 'del', device], { okCodes: [0, 1] })
    })
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
    }
  },
  { skip },
)
