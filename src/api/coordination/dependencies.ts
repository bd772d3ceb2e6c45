import type { MigrationId, NodeName } from '../../core/migration/offer.ts'
import type { Manifest } from '../../core/vm/manifest.ts'
import type { Log } from '../../log/log.ts'
import type { Health } from '../listener/health.ts'

/** The VMs that this host offers. */
export type Departures = {
  /** Returns the VM that this migration offers to this node; undefined for any other node. Throws HostFault. */
  readonly manifest: (id: MigrationId, node: NodeName) => Promise<Manifest | undefined>
  /** Resolves when everything that was stored until now is on the disk. */
  readonly flushed: () => Promise<void>
}

/** Everything that the coordination API needs from the rest of the daemon. */
export type CoordinationDependencies = Health & {
  /** Undefined until the store is open; until then routes that need it answer 503 `starting_up`. */
  readonly departures: () => Departures | undefined
  /** The text of `docs/errors.md`. */
  readonly errorsMarkdown: () => Uint8Array
  readonly log: Log
}
