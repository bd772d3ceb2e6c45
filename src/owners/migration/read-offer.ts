import { randomUUID } from 'node:crypto'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { faults } from '../../core/problems/catalogue.ts'
import { whyNotRestorable } from '../../core/saved/judge-saved-state.ts'
import { movesWithMemory } from '../../core/vm/manifest.ts'
import { err, ok } from '../../lib/result.ts'
import { unknownBy } from '../../log/error-chain.ts'
import type { Rejection } from '../../core/errors.ts'
import type { ArrivalId, SourceRefusal } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { MonitorKind } from '../../core/monitor/monitor-kind.ts'
import type { GuestPlatform } from '../../core/saved/judge-saved-state.ts'
import type { Manifest, Offered } from '../../core/vm/manifest.ts'
import type { Unknown } from '../../core/world/world.ts'
import type { Result } from '../../lib/result.ts'
import type { Host } from '../../ports/host.ts'

export type OfferToRead = {
  readonly source: string
  readonly migrationId: MigrationId
  /** Returns why this host runs no VM with a monitor of this kind. */
  readonly refuseMonitor: (kind: MonitorKind) => Rejection | undefined
}

/**
 * Reads an offer at its source. Refuses one that this node does not have, and a guest that this host could not restore.
 * The signal ends the wait for the source after `limits.offerReadMs`.
 */
export async function readOffer(
  { sourceHosts, monitors }: Pick<Host, 'sourceHosts' | 'monitors'>,
  { source, migrationId, refuseMonitor }: OfferToRead,
  signal: AbortSignal,
): Promise<Result<Offered, Rejection | Unknown>> {
  try {
    const manifest = await sourceHosts.at(source).manifest(migrationId, signal)
    if (manifest.ok) {
      const kind = manifest.value.vm.monitor
      const notHere = refuseMonitor(kind)
      if (notHere !== undefined) return err(notHere)
      const monitor = monitors[kind]
      const here = { monitor: await monitor.installed(), processor: monitor.processor }
      const refusal = refuseMemory(manifest.value, here)
      return refusal === undefined
        ? ok({ manifest: manifest.value, arrivalId: randomUUID() as ArrivalId })
        : err(refusal)
    }
    return err({ code: 'migration_unavailable', detail: noOfferWords(migrationId, manifest.error) })
  } catch (error) {
    if (error instanceof HostFault) return err(unknownBy(error))
    if (!signal.aborted || error !== signal.reason) throw error
    const message = `asking the source ${source}: no answer within ${limits.offerReadMs / 1000} s`
    const { retry } = faults.source_unreachable
    return err({ known: false, code: 'source_unreachable', retry, message })
  }
}

function noOfferWords(id: MigrationId, because: SourceRefusal): string {
  if (because === 'withdrawn')
    return `migration ${id} is withdrawn at its source: offer the VM there under a new migration id`
  if (because === 'released')
    return `migration ${id} has ended at its source, which has released the VM: offer the VM at the host where it is now`
  return `the source offers no VM to this node by migration ${id}: offer the VM to the common name of this host's node certificate`
}

function refuseMemory(manifest: Manifest, here: GuestPlatform): Rejection | undefined {
  const { vmId, monitor, processor } = manifest
  if (!movesWithMemory(manifest)) return undefined
  const because = whyNotRestorable(monitor, processor, here)
  if (because === undefined) return undefined
  const detail = `the memory of ${vmId} could not be restored here: ${because}`
  return { code: 'migration_incompatible', detail }
}
