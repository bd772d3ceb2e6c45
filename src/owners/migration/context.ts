import type { VmId } from '../../core/ids.ts'
import type { Log } from '../../log/log.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Host } from '../../ports/host.ts'
import type { Store } from '../../store/store.ts'
import type { BetweenPasses } from '../between-passes.ts'

/** The parts of the daemon that a change of a departure needs. */
export type DepartureContext = {
  readonly store: Store
  readonly clock: Clock
  readonly poke: (id: VmId, reason: string) => void
  readonly log: Log
}

/** The parts that the source of a migration needs. */
export type SourceContext = DepartureContext & {
  readonly host: Host
  readonly betweenPasses: BetweenPasses
  /** Resolves when this many bytes may be sent to other hosts. */
  readonly pace: (bytes: number, signal: AbortSignal) => Promise<void>
}
