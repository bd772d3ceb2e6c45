import { limits } from '../../config/limits.ts'
import { canSleep } from '../idle/idle-timeout.ts'
import type { Desired } from '../vm/desired.ts'
import type { Commitment } from './capacity.ts'

/** Room in the pool that is not for one VM: images, and the quota of staging. */
export type PoolShares = { readonly imagesMib: number; readonly stagingMib: number }

/** Memory that a VM's monitor may take besides its guest's, by the memory of the guest; both in MiB. */
export type MonitorMib = (guestMib: number) => number

/** VMs of the same memory: how many there are, and of how many the guest may be saved. */
export type MemoryClass = { readonly memoryMib: number; readonly vms: number; readonly sleepers: number }

/** What is on record of all VMs together, whatever their state. */
export type Recorded = {
  readonly cpuMillicores: number
  readonly disksMib: number
  readonly consolePlaces: number
  readonly classes: readonly MemoryClass[]
}

/** All that is promised on this host, part by part. */
export type Ledger = {
  readonly guestsMib: number
  readonly monitorsMib: number
  readonly disksMib: number
  readonly savedMib: number
  readonly imagesMib: number
  readonly stagingMib: number
  readonly consolePlaces: number
}

/** The most that a saved guest takes in the pool: its memory, and what the monitor writes of its devices. */
const savedMib = (memoryMib: number): number => memoryMib + limits.savedDevicesMib

/** The ledger after a restart is the one before it: it is a sum over the records, and what the host shows. */
export function ledgerOf(
  { disksMib, consolePlaces, classes }: Recorded,
  { imagesMib, stagingMib }: PoolShares,
  monitorMib: MonitorMib,
): Ledger {
  const sum = (of: (one: MemoryClass) => number): number => classes.reduce((all, one) => all + of(one), 0)
  return {
    guestsMib: sum(({ memoryMib, vms }) => memoryMib * vms),
    monitorsMib: sum(({ memoryMib, vms }) => monitorMib(memoryMib) * vms),
    disksMib,
    savedMib: sum(({ memoryMib, sleepers }) => savedMib(memoryMib) * sleepers),
    imagesMib,
    stagingMib,
    consolePlaces,
  }
}

export const totalsOf = (ledger: Ledger): Commitment => ({
  memoryMib: ledger.guestsMib + ledger.monitorsMib,
  diskMib: ledger.disksMib + ledger.savedMib + ledger.imagesMib + ledger.stagingMib,
  consolePlaces: ledger.consolePlaces,
})

/** What one VM is promised, from its desired state alone. */
export const commitmentOf = (desired: Desired, monitorMib: MonitorMib): Commitment => ({
  memoryMib: desired.compute.memoryMib + monitorMib(desired.compute.memoryMib),
  diskMib: desired.disk.sizeMib + (canSleep(desired) ? savedMib(desired.compute.memoryMib) : 0),
  consolePlaces: holdsPlace(desired) ? 1 : 0,
})

export const increaseOf = (before: Commitment, after: Commitment): Commitment => ({
  memoryMib: after.memoryMib - before.memoryMib,
  diskMib: after.diskMib - before.diskMib,
  consolePlaces: after.consolePlaces - before.consolePlaces,
})

/** Whether a VM has a console place for itself: one that sleeps gives it back each time, and shares those that are left. */
export const holdsPlace = (desired: Desired): boolean =>
  desired.power === 'paused' || (desired.power === 'running' && !canSleep(desired))

/** Before anything is promised. */
export const NOTHING: Commitment = { memoryMib: 0, diskMib: 0, consolePlaces: 0 }

/** Of all console places, those that VMs which never sleep may hold: the others are for VMs that wake. */
export const heldPlacesMax = (places: number): number =>
  places - Math.ceil(places * limits.sleepersPlacesShare)

/** The quota of staging that is in force on a pool of this size: as configured, within a bounded part of the pool. */
export function stagingQuotaMib(configuredMib: number, poolMib: number): number {
  const most = Math.floor(poolMib * limits.stagingPoolShareMax)
  return Math.min(configuredMib, Math.max(limits.stagingQuotaMibMin, most))
}
