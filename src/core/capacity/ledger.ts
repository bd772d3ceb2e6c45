import { limits } from '../../config/limits.ts'
import { canSleep } from '../sleep/idle-timeout.ts'
import type { Desired } from '../desired.ts'
import { SAVED_STATES_MAX } from '../monitor/monitor-kind.ts'
import type { MonitorKind } from '../monitor/monitor-kind.ts'
import { owesRebuild } from '../vm/record.ts'
import type { VmRecord } from '../vm/record.ts'

/**
 * The commitment of a VM for as long as it exists, even while it sleeps or is stopped. So a start or a wake is never
 * refused for lack of disk, nor of memory, unless the VM has lent its memory. Only VMs that run and never sleep hold
 * console places.
 */
export type Commitment = {
  readonly memoryMib: number
  readonly diskMib: number
  readonly consolePlaces: number
}

/** The commitment of one VM, and the parts of it that no request names. */
export type VmCommitment = Commitment & {
  /** The part of `memoryMib` that its monitor may take. */
  readonly monitorMib: number
  /** The part of `diskMib` in which its guest is saved. */
  readonly savedMib: number
}

/** Space in the pool that is not for one VM: images, and the quota of staging. */
export type PoolShares = { readonly imagesMib: number; readonly stagingMib: number }

/** Stands for shares that are not known where nothing depends on them. */
export const NO_SHARES: PoolShares = { imagesMib: 0, stagingMib: 0 }

/** Returns the memory that a monitor of this kind may take besides its guest's, for the guest's memory; both in MiB. */
export type MonitorMib = (kind: MonitorKind, guestMib: number) => number

/** The terms on which VMs are promised memory. */
export type MemoryTerms = {
  readonly monitorMib: MonitorMib
  /** The part of a sleeping VM's memory that stays promised, from 0 to 1. */
  readonly sleepRatio: number
}

/**
 * VMs with the same monitor and memory: how many there are, how many of their guests may be saved, how many have lent
 * their memory, and how many of these are promised only a part of it.
 */
export type MemoryClass = {
  readonly monitor: MonitorKind
  readonly memoryMib: number
  readonly vms: number
  readonly sleepers: number
  readonly lenders: number
  readonly partPromised: number
}

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

/** Returns the size of one saved state of a guest: its memory and the state of its devices. */
export const savedStateMib = (memoryMib: number): number => memoryMib + limits.savedDevicesMib

/** Returns the most that a guest takes in the pool to be saved. */
const savedMib = (monitor: MonitorKind, memoryMib: number): number =>
  savedStateMib(memoryMib) * SAVED_STATES_MAX[monitor]

/** Returns the ledger. It is a sum over the records and what the host shows, so a restart does not change it. */
export function ledgerOf(
  { disksMib, consolePlaces, classes }: Recorded,
  { imagesMib, stagingMib }: PoolShares,
  terms: MemoryTerms,
): Ledger {
  const sum = (of: (one: MemoryClass) => number): number => classes.reduce((all, one) => all + of(one), 0)
  return {
    guestsMib: sum(({ memoryMib, ...counts }) => promisedMib(memoryMib, counts, terms)),
    monitorsMib: sum(({ monitor, memoryMib, ...counts }) =>
      promisedMib(terms.monitorMib(monitor, memoryMib), counts, terms),
    ),
    disksMib,
    savedMib: sum(({ monitor, memoryMib, sleepers }) => savedMib(monitor, memoryMib) * sleepers),
    imagesMib,
    stagingMib,
    consolePlaces,
  }
}

/** Returns what stays promised of `eachMib` for each of some VMs. A part is rounded up for each VM, not for the sum. */
const promisedMib = (
  eachMib: number,
  { vms, partPromised }: Pick<MemoryClass, 'vms' | 'partPromised'>,
  { sleepRatio }: MemoryTerms,
): number => eachMib * (vms - partPromised) + Math.ceil(eachMib * sleepRatio) * partPromised

/** Returns the memory of all VMs that have not lent theirs. This is what they may take at this moment. */
export const heldMemoryMib = ({ classes }: Recorded, { monitorMib }: MemoryTerms): number =>
  classes.reduce(
    (all, { monitor, memoryMib, vms, lenders }) =>
      all + (memoryMib + monitorMib(monitor, memoryMib)) * (vms - lenders),
    0,
  )

export const totalsOf = (ledger: Ledger): Commitment => ({
  memoryMib: ledger.guestsMib + ledger.monitorsMib,
  diskMib: ledger.disksMib + ledger.savedMib + ledger.imagesMib + ledger.stagingMib,
  consolePlaces: ledger.consolePlaces,
})

/** The part of a record from which the commitment follows. */
type Promised = Pick<VmRecord, 'desired' | 'monitor' | 'memoryLent'> & {
  /** Its guest may be saved even if it never sleeps: it comes with its memory, or slept before a change. */
  readonly mayBeSaved?: boolean
  readonly observed?: Pick<VmRecord['observed'], 'rebuild'>
}

/**
 * Returns what one VM is promised, from its desired state, its monitor, and whether it has lent its memory or may be
 * saved.
 */
export function commitmentOf(promised: Promised, terms: MemoryTerms): VmCommitment {
  const { desired, monitor, memoryLent, mayBeSaved, observed = {} } = promised
  const { memoryMib } = desired.compute
  const disks = owesRebuild({ desired, observed }) ? 2 : 1
  // A VM that never sleeps gives nothing back once it runs, so its memory stays promised although it is lent.
  const isPart = memoryLent === true && mayLend(desired) && canSleep(desired)
  const ofMemory = (eachMib: number): number =>
    promisedMib(eachMib, { vms: 1, partPromised: isPart ? 1 : 0 }, terms)
  const hasSaved = canSleep(desired) || mayBeSaved === true
  const monitorMib = ofMemory(terms.monitorMib(monitor, memoryMib))
  const forSavedMib = hasSaved ? savedMib(monitor, memoryMib) : 0
  return {
    memoryMib: ofMemory(memoryMib) + monitorMib,
    monitorMib,
    diskMib: desired.disk.sizeMib * disks + forSavedMib,
    savedMib: forSavedMib,
    consolePlaces: holdsPlace(desired) ? 1 : 0,
  }
}

/** Returns whether a VM lends its memory while it sleeps; otherwise its memory stays promised whatever the ratio. */
export const mayLend = ({ compute }: Pick<Desired, 'compute'>): boolean => compute.wake !== 'guaranteed'

/** Returns what one VM is promised more after a change. */
export const increaseOf = (before: VmCommitment, after: VmCommitment): VmCommitment => ({
  ...beyond(before, after),
  monitorMib: after.monitorMib - before.monitorMib,
  savedMib: after.savedMib - before.savedMib,
})

/** Returns `after` less `before`. */
export const beyond = (before: Commitment, after: Commitment): Commitment => ({
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

/** Returns how many console places VMs that never sleep may hold; the other places are for VMs that wake. */
export const heldPlacesMax = (places: number): number =>
  places - Math.ceil(places * limits.sleepersPlacesShare)

/** Returns the staging quota for a pool of this size: as configured, within a bounded part of the pool. */
export function stagingQuotaMib(configuredMib: number, poolMib: number): number {
  const most = Math.floor(poolMib * limits.stagingPoolShareMax)
  return Math.min(configuredMib, Math.max(limits.stagingQuotaMibMin, most))
}

/** Returns `totalMib` of memory less the reserve; never below 0. */
export const allocatableMemoryMib = (totalMib: number, reserveMib: number): number =>
  Math.max(0, totalMib - reserveMib)

/** Returns the pool's size times the configured overcommit, less the reserve; never below 0. */
export const allocatableDiskMib = (
  totalMib: number,
  { overcommit, reserveMib }: { readonly overcommit: number; readonly reserveMib: number },
): number => Math.max(0, Math.floor(totalMib * overcommit) - reserveMib)

const KINDS = {
  memoryMib: ['memory', 'MiB', ({ monitorMib }) => [monitorMib, 'monitor']],
  diskMib: ['disk', 'MiB', ({ savedMib: mib }) => [mib, 'saved memory']],
  consolePlaces: ['console places', 'places', () => [0, '']],
} as const satisfies Record<
  keyof Commitment,
  readonly [name: string, unit: string, part: (of: VmCommitment) => readonly [amount: number, name: string]]
>

type Shortage = { readonly kind: keyof Commitment; readonly words: string }

/**
 * Returns what the host lacks for an increase, in words such as "memory by 512 MiB (1024 MiB more needed, 128 of
 * them for its monitor, 512 MiB free of 8192 MiB)"; empty if the host can hold it. If the host has promised more than
 * it has, they say by how much. What does not increase is not checked, so an over-committed host still accepts it.
 */
export function shortages(
  committed: Commitment,
  increase: VmCommitment,
  allocatable: Commitment,
): readonly Shortage[] {
  return (Object.keys(KINDS) as (keyof Commitment)[]).flatMap((kind) => {
    const free = allocatable[kind] - committed[kind]
    const missing = increase[kind] - free
    if (increase[kind] <= 0 || missing <= 0) return []
    const [name, unit, partOf] = KINDS[kind]
    const left =
      free >= 0
        ? `${free} ${unit} free of ${allocatable[kind]} ${unit}`
        : `${-free} ${unit} promised already beyond its ${allocatable[kind]} ${unit}`
    const needed = `${increase[kind]} ${unit} more needed${partWords(increase[kind], ...partOf(increase))}`
    return { kind, words: `${name} by ${missing} ${unit} (${needed}, ${left})` }
  })
}

/** Says how much of an increase is for a part that no request names. */
function partWords(wholeMib: number, partMib: number, name: string): string {
  if (partMib <= 0) return ''
  return partMib < wholeMib ? `, ${partMib} of them for its ${name}` : ` for its ${name}`
}
