import type { Staging } from '../../ports/staging.ts'
import type { Store } from '../../store/store.ts'

/** The bytes in staging: sums over all snapshots. */
export type StagingUse = {
  readonly packedBytes: number
  /** The part of `packedBytes` that was sent, according to the records. */
  readonly sentBytes: number
  /** The most that captured disks can occupy. */
  readonly cloneBytes: number
}

/** Reads what is in staging. Throws HostFault. */
export async function readStagingUse({
  staging,
  store,
}: {
  readonly staging: Pick<Staging, 'list'>
  readonly store: Store
}): Promise<StagingUse> {
  const all = await staging.list()
  const packedBytes = all.reduce((sum, each) => sum + each.packedBytes, 0)
  return {
    packedBytes,
    // The records may be newer than the listing.
    sentBytes: Math.min(store.snapshots.sentStagedBytes(), packedBytes),
    cloneBytes: all.reduce((sum, each) => sum + each.cloneBytes, 0),
  }
}
