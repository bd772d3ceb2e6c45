import { imagesOf } from '../vm/desired.ts'
import { when } from './facet.ts'
import type { VmRecord } from '../vm/record.ts'
import type { Facet } from './facet.ts'
import type { Facts } from './facts.ts'
import type { Step } from './step.ts'
import type { StorageState, World } from './world.ts'

/** Images in the pool, the disk at its size, the seed as rendered. */
export function ensureStorage(record: VmRecord, world: World, facts: Facts): Facet {
  const gone = isGone(world)
  const mayGrow = gone || facts.capabilities.growDiskOnline
  return when('storage', world.storage, (storage) => [
    ...fetchImages(record, storage),
    ...ensureDisk(record, storage, mayGrow),
    ...ensureSeed(storage, facts, gone),
  ])
}

/** The rootfs image is needed only until the disk is cloned from it. */
function fetchImages(record: VmRecord, { missingImages, disk }: StorageState): Step[] {
  return imagesOf(record.desired.image)
    .filter(({ role }) => missingImages.includes(role) && (role !== 'rootfs' || disk.kind === 'absent'))
    .map(({ role, sha256 }) => ({
      kind: 'image.ensure-fetched',
      role,
      sha256,
      because: `the ${role} image is not in the pool`,
    }))
}

function ensureDisk(record: VmRecord, { disk }: StorageState, mayGrow: boolean): Step[] {
  const { sizeMib } = record.desired.disk
  if (disk.kind === 'absent')
    return [{ kind: 'storage.ensure-disk', sizeMib, because: 'there is no disk yet' }]
  if (disk.sizeMib >= sizeMib || !mayGrow) return []
  return [
    {
      kind: 'storage.ensure-disk',
      sizeMib,
      because: `the disk has ${disk.sizeMib} MiB and shall have ${sizeMib}`,
    },
  ]
}

/** A seed is never replaced under a guest that reads it. */
function ensureSeed({ seed }: StorageState, { seedDigest }: Facts, gone: boolean): Step[] {
  if (seed.kind === 'present' && (seed.digest === seedDigest || !gone)) return []
  const because = seed.kind === 'absent' ? 'there is no seed disk yet' : 'the seed disk is not as it shall be'
  return [{ kind: 'storage.ensure-seed', digest: seedDigest, because }]
}

/** Removes disk and seed of a VM under deletion. */
export function removeDisk(world: World): Facet {
  return when('storage', world.storage, ({ disk, seed }) =>
    disk.kind === 'absent' && seed.kind === 'absent'
      ? []
      : [{ kind: 'storage.remove-disk', because: 'the VM is being deleted' }],
  )
}

const isGone = ({ unit }: World): boolean =>
  unit.known && (unit.value.kind === 'absent' || unit.value.kind === 'failed')
