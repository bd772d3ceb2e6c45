import { limits } from '../../config/limits.ts'
import { canSleep } from '../sleep/idle-timeout.ts'
import type { Desired } from '../desired.ts'
import type { Commitment } from './capacity.ts'

/** Space in the pool that is not for one VM: images, and the quota of staging. */
export type PoolShares = { readonly imagesMib: number; readonly stagingMib: number }

/** Returns the memory that a VM's monitor may take besides its guest's, for the memory of the guest; both in MiB. */
export type MonitorMib = (guestMib: number) => number

/** VMs with the same memory: how many there are, and how many of their guests may be saved. */
export type MemoryClass = { readonly memoryMib: number; readonly vms: number; readonly sleepers: number }

/** Sums over the records of all VMs, whatever their state. */
export type Recorded = {
  readonly cpuMillicores: number
  readonly disksMib: number
  readonly consolePlaces: number
  readonly classes: readonly MemoryClass[]
}

/** Everything that is promised on this host, part by part. */
export type Ledger = {
  readonly guestsMib: number
  readonly monitorsMib: number
  readonly disksMib: number
  readonly savedMib: number
  readonly imagesMib: number
  readonly stagingMib: number
  readonly consolePlaces: number
}

/** Returns the most that a saved guest takes in the pool: its memory, and the state of its devices. */
const savedMib = (memoryMib: number): number => memoryMib + limits.savedDevicesMib

/** Returns the ledger. It is a sum over the records and what the host shows, so a restart does not change it. */
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

/** Returns what one VM is promised, from its desired state alone. */
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

/**
 * Returns whether a VM has a console place of its own. A VM that sleeps gives its place back each time, and shares the
 * rest.
 */
export const holdsPlace = (desired: Desired): boolean =>
  desired.power === 'paused' || (desired.power === 'running' && !canSleep(desired))

/** The commitment before anything is promised. */
export const NOTHING: Commitment = { memoryMib: 0, diskMib: 0, consolePlaces: 0 }

/** Returns how many console places VMs that never sleep may hold; the other places are for VMs that wake. */
export const heldPlacesMax = (places: number): number =>
  places - Math.ceil(places * limits.sleepersPlacesShare)

/** Returns the staging quota for a pool of this size: as configured, within a bounded part of the pool. */
export function stagingQuotaMib(configuredMib: number, poolMib: number): number {
  const most = Math.floor(poolMib * limits.stagingPoolShareMax)
  return Math.min(configuredMib, Math.max(limits.stagingQuotaMibMin, most))
}
