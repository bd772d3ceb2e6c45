import assert from 'node:assert/strict'
import { HostFault } from '../../src/core/errors.ts'
import { tapDrift } from '../../src/core/network/tap.ts'
import type { TapSetting } from '../../src/core/network/tap-settings.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import type { TapMaking, TapState } from '../../src/core/world/network-state.ts'
import type { DeviceName, MacAddress, UserId, VmId } from '../../src/core/ids.ts'
import type { Taps } from '../../src/ports/network.ts'

/** Taps under test, those of another store on the same host, and the changes that an administrator may make. */
export type TapsStage = {
  readonly taps: Taps
  readonly storeId: string
  readonly others: Taps
  /** Makes a device that is unrelated to vmhostd. */
  occupy(device: DeviceName): Promise<void> | void
  /** Whether a device of that name exists. */
  exists(device: DeviceName): Promise<boolean> | boolean
  delete(device: DeviceName): Promise<void> | void
  rename(device: DeviceName, name: DeviceName): Promise<void> | void
  takeDown(device: DeviceName): Promise<void> | void
  /** Makes the device a port of a bridge, `br0`, which takes its packets from then on. */
  bridge(device: DeviceName): Promise<void> | void
  flushNeighbours(device: DeviceName): Promise<void> | void
  /** Writes a kernel setting of the device. */
  changeSetting(device: DeviceName, ...setting: TapSetting): Promise<void> | void
  /** Takes the limits away: of `part` one alone, in a way that leaves the guest unable to transmit. */
  removeLimits(device: DeviceName, part?: 'half of the transmit limit'): Promise<void> | void
  /** Starts a monitor of the VM, which holds its tap. Returns its process id. */
  startMonitor(spec: TapSpec): Promise<number> | number
  endMonitor(spec: TapSpec): Promise<void> | void
  /** Lets the monitor change the tap by its own descriptor, as a guest that took the monitor over can. */
  changeByMonitor(spec: TapSpec, change: Partial<TapMaking>): Promise<void> | void
  /** Waits until the host has finished its own follow-up to the creation of a tap that no process holds. */
  settled(device: DeviceName): Promise<void> | void
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

/** Looks at the tap of a VM. */
export const look = ({ taps }: TapsStage, { device, vmId }: TapSpec): Promise<TapState> =>
  taps.inspect(device, vmId)

/** Asserts that a tap is there as it must be. */
export async function assertWhole(stage: TapsStage, spec: TapSpec): Promise<void> {
  const state = await look(stage, spec)
  assert.equal(state.kind, 'present')
  assert.deepEqual(state.kind === 'present' && tapDrift(spec, state.facts), [])
}

export const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code
