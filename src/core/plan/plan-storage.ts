import { diskLimitsOf, imagesOf } from '../desired.ts'
import { unfitWords, unreadableKernel } from '../images/image-look.ts'
import { owesBootImages, owesGrowth, owesRebuild } from '../vm/record.ts'
import { isGone, isLiveMonitor } from '../world/world.ts'
import { when } from './facet.ts'
import type { DiskLimits, ImageRole } from '../desired.ts'
import type { VmRecord } from '../vm/record.ts'
import type { DiskState, StorageState, World } from '../world/world.ts'
import type { Facet, Facts } from './facet.ts'
import type { Blocked, Step } from './step.ts'

/** Ensures that the images are in the pool, the disk has its size, and the seed is as rendered. */
export function ensureStorage(record: VmRecord, world: World, facts: Facts): Facet {
  const noGuest = world.unit.known && isGone(world.unit.value)
  return when('storage', world.storage, (storage) => {
    const unfit =
      unfitDisk(record, storage) ??
      (noGuest ? (unfitImages(record, storage) ?? unreadableImage(record, storage, facts)) : undefined)
    if (unfit !== undefined) return unfit
    return [
      // A running guest has already read its kernel; a missing image matters only at its next start.
      ...(noGuest ? fetchImages(record, storage) : []),
      ...ensureDisk(record, storage, { noGuest }),
      ...ensureSeed(record, storage, { seedDigest: facts.seedDigest, noGuest }),
    ]
  })
}

/**
 * Ensures the files that a monitor reads at its start, even if it restores a guest. Disk and seed stay as the guest
 * left them.
 */
export function ensureBootable(record: VmRecord, world: World): Facet {
  return when(
    'storage',
    world.storage,
    (storage) => unfitDisk(record, storage) ?? unfitImages(record, storage) ?? fetchImages(record, storage),
  )
}

/**
 * Makes the disk of a stopped VM again, or grows it. Evaluated only if one of them is outstanding, so a stop never
 * waits for the pool. Of the images, only that of the disk is needed.
 */
export function changeStoppedDisk(record: VmRecord, world: World): Facet {
  if (!owesGrowth(record) && !owesRebuild(record)) return []
  return when(
    'storage',
    world.storage,
    (storage) =>
      unfitDisk(record, storage) ??
      unfitImages(record, storage, ['rootfs']) ?? [
        ...fetchImages(record, storage, ['rootfs']),
        ...ensureDisk(record, storage, { noGuest: true }),
      ],
  )
}

/**
 * Fetches the images that a stopped VM is to boot from since their last change, so that a fault shows before its start.
 */
export function fetchBootImages(record: VmRecord, world: World, { capabilities }: Facts): Facet {
  if (!owesBootImages(record)) return []
  return when('storage', world.storage, (storage) => bootImages(record, storage, capabilities))
}

/** Returns whether the images that the VM boots from are in the pool, and its monitor can boot from them. */
export function areBootImagesReady(
  record: VmRecord,
  storage: StorageState,
  capabilities: Facts['capabilities'],
): boolean {
  const facet = bootImages(record, storage, capabilities)
  return !('outcome' in facet) && facet.length === 0
}

const BOOT_ROLES: readonly ImageRole[] = ['kernel', 'initrd']

const bootImages = (record: VmRecord, storage: StorageState, capabilities: Facts['capabilities']): Facet =>
  unfitImages(record, storage, BOOT_ROLES) ??
  unreadableImage(record, storage, { capabilities }) ??
  fetchImages(record, storage, BOOT_ROLES)

/**
 * Shows a running guest the new size of its disk once the pool has it. Otherwise the monitor would grow the file
 * itself, bypassing the pool.
 */
export function showGrowth(record: VmRecord, { monitor, storage }: World): Facet {
  if (!monitor.known || !isLiveMonitor(monitor.value)) return []
  const inPool = storage.known && storage.value.disk.kind === 'present'
  const live = monitor.value.disk
  const { sizeMib } = record.desired.disk
  if (live.sizeMib >= sizeMib || !inPool) return []
  const because = `the guest sees ${live.sizeMib} MiB and should see ${sizeMib}`
  return [{ kind: 'monitor.ensure-disk-size', sizeMib, because }]
}

/** Applies the desired disk limits to a running guest. */
export function limitDisk(record: VmRecord, { monitor }: World): Facet {
  if (!monitor.known || !isLiveMonitor(monitor.value)) return []
  const live = monitor.value.disk
  const limits = diskLimitsOf(record.desired.disk)
  if (sameLimits(live, limits)) return []
  const because = `the limits of the disk are ${limitsInWords(live)} and should be ${limitsInWords(limits)}`
  return [{ kind: 'monitor.ensure-disk-limits', limits, because }]
}

/**
 * Returns whether a disk that existed before is missing. The daemon never makes it again from the image unless a
 * rebuild asks for that, because it would be another machine under the same name.
 */
export const isDiskMissing = (record: VmRecord, { disk }: Pick<StorageState, 'disk'>): boolean =>
  disk.kind === 'absent' && record.observed.disk !== undefined && !owesRebuild(record)

/** Returns whether the disk is older than the rebuild that the VM owes. */
const isOutdated = (record: VmRecord, { disk }: Pick<StorageState, 'disk'>): boolean =>
  disk.kind === 'present' &&
  owesRebuild(record) &&
  (disk.note?.rebuild ?? 0) < (record.desired.image.rebuild ?? 0)

/** Returns why there is no disk that the VM could use. */
function unfitDisk(record: VmRecord, storage: StorageState): Blocked | undefined {
  if (storage.disk.kind === 'foreign') return diskForeign(record, storage.disk)
  return isDiskMissing(record, storage) ? diskMissing(record) : undefined
}

export const hasForeignDisk = ({ storage }: World): boolean =>
  storage.known && storage.value.disk.kind === 'foreign'

type ForeignDisk = Extract<DiskState, { readonly kind: 'foreign' }>

export const diskForeign = ({ id }: VmRecord, { because, ofRebuild }: ForeignDisk): Blocked => ({
  outcome: 'blocked',
  step: 'storage.ensure-disk',
  code: 'disk_foreign',
  retry: 'backoff',
  because: `the pool has a disk with the name of ${id}, and ${because}; ${
    ofRebuild === undefined
      ? `move it out of the pool, or delete VM ${id}`
      : `rebuild VM ${id}, or delete it and give the disk its own record (vmhostd recover)`
  }`,
})

const diskMissing = (record: VmRecord): Blocked => ({
  outcome: 'blocked',
  step: 'storage.ensure-disk',
  code: 'disk_missing',
  retry: 'backoff',
  because: `the disk of ${record.id} is gone from the pool; put it back, rebuild the VM, or delete it`,
})

/** Returns whether an image is needed now: that of the disk only until the disk is cloned from it. */
const isNeeded = (role: ImageRole, record: VmRecord, storage: StorageState): boolean =>
  role !== 'rootfs' || storage.disk.kind === 'absent' || isOutdated(record, storage)

const ALL_ROLES: readonly ImageRole[] = ['kernel', 'rootfs', 'initrd']

/**
 * Blocks the plan before anything is made from an image of the wrong kind. A guest made from one shows nothing, and its
 * disk would stay.
 */
function unfitImages(record: VmRecord, storage: StorageState, among = ALL_ROLES): Blocked | undefined {
  const unfit = storage.unfitImages.filter(
    ({ role }) => among.includes(role) && isNeeded(role, record, storage),
  )
  return unfit.length === 0 ? undefined : imageUnsuitable(unfitWords(unfit))
}

/** Blocks a boot from a kernel that the VM's monitor cannot read. A guest that is restored has booted already. */
function unreadableImage(
  { desired }: VmRecord,
  { kernelLook: look }: StorageState,
  { capabilities }: Pick<Facts, 'capabilities'>,
): Blocked | undefined {
  const kernel = { sha256: desired.image.kernelSha256, look }
  const because = unreadableKernel(kernel, capabilities.kernelFormats)
  return because === undefined ? undefined : imageUnsuitable(because)
}

const imageUnsuitable = (because: string): Blocked => ({
  outcome: 'blocked',
  step: 'image.ensure-fetched',
  code: 'image_unsuitable',
  retry: 'on-change',
  because,
})

function fetchImages(record: VmRecord, storage: StorageState, among = ALL_ROLES): Step[] {
  return imagesOf(record.desired.image)
    .filter(({ role }) => among.includes(role) && storage.missingImages.includes(role))
    .filter(({ role }) => isNeeded(role, record, storage))
    .map(({ role, sha256 }) => ({
      kind: 'image.ensure-fetched',
      role,
      sha256,
      because: `the ${role} image is not in the pool`,
    }))
}

/**
 * Returns the step that makes, rebuilds, grows or repairs the disk, if one is due. `noGuest`: no guest has the disk.
 */
function ensureDisk(
  record: VmRecord,
  { disk }: StorageState,
  { noGuest }: { readonly noGuest: boolean },
): Step[] {
  const { sizeMib } = record.desired.disk
  if (disk.kind === 'absent')
    return [{ kind: 'storage.ensure-disk', sizeMib, because: 'there is no disk yet' }]
  if (disk.kind === 'foreign') return []
  if (noGuest && isOutdated(record, { disk })) {
    const because = `the disk is older than rebuild ${record.desired.image.rebuild}`
    return [{ kind: 'storage.rebuild-disk', sizeMib, because }]
  }
  if (disk.sizeMib < sizeMib) {
    const because = `the disk has ${disk.sizeMib} MiB and should have ${sizeMib}`
    return [{ kind: 'storage.ensure-disk', sizeMib, because }]
  }
  const because = whyRepair(record, disk)
  return because === undefined ? [] : [{ kind: 'storage.ensure-disk', sizeMib: disk.sizeMib, because }]
}

/** Returns what must be repaired on the VM's own disk, for example after the disk was restored from a backup. */
function whyRepair(
  { host }: VmRecord,
  { note, usableBy }: Extract<DiskState, { kind: 'present' }>,
): string | undefined {
  if (note === undefined) return 'no note beside the disk says whose it is'
  if (usableBy === host.userId) return undefined
  return `owner and mode of the disk do not let user ${host.userId} use it`
}

/** Ensures the seed disk. A seed is never replaced while a guest reads it. */
function ensureSeed(
  { host }: VmRecord,
  { seed }: StorageState,
  { seedDigest, noGuest }: { readonly seedDigest: string; readonly noGuest: boolean },
): Step[] {
  const isAsRendered = seed.kind === 'present' && seed.digest === seedDigest && seed.usableBy === host.userId
  if (isAsRendered || (seed.kind === 'present' && !noGuest)) return []
  const because =
    seed.kind === 'absent' ? 'there is no seed disk yet' : 'the seed disk is not as it should be'
  return [{ kind: 'storage.ensure-seed', digest: seedDigest, because }]
}

/** Removes the disk, the seed and the saved state of a VM under deletion. */
export function removeDisk({ storage, saved }: World, because: string): Facet {
  const removal: Facet = [{ kind: 'storage.remove-disk', because }]
  return when('storage', storage, ({ disk, seed }) => {
    if (disk.kind === 'foreign') return []
    if (disk.kind !== 'absent' || disk.hasDirectory || seed.kind !== 'absent') return removal
    return when('storage', saved, ({ kind }) => (kind === 'absent' ? [] : removal))
  })
}

const sameLimits = (live: DiskLimits, wanted: DiskLimits): boolean =>
  live.iopsMax === wanted.iopsMax && live.mibPerSecondMax === wanted.mibPerSecondMax

function limitsInWords({ iopsMax, mibPerSecondMax }: DiskLimits): string {
  const parts = [
    ...(iopsMax === undefined ? [] : [`${iopsMax} operations/s`]),
    ...(mibPerSecondMax === undefined ? [] : [`${mibPerSecondMax} MiB/s`]),
  ]
  return parts.length === 0 ? 'none' : parts.join(' and ')
}
