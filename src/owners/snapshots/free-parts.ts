import type { SnapshotPart, StagingId } from '../../core/snapshots/record.ts'
import type { Staging } from '../../ports/staging.ts'

/** Frees the space of sent parts, adjacent parts in one call. Throws HostFault. */
export async function freeParts(
  staging: Pick<Staging, 'discardPart'>,
  stagingId: StagingId,
  sent: readonly SnapshotPart[],
): Promise<void> {
  const runs: { offsetBytes: number; bytes: number }[] = []
  for (const { offsetBytes, bytes } of sent) {
    const last = runs.at(-1)
    if (last !== undefined && last.offsetBytes + last.bytes === offsetBytes) last.bytes += bytes
    else runs.push({ offsetBytes, bytes })
  }
  for (const run of runs) await staging.discardPart(stagingId, run)
}
