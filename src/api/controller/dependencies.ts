import type { Socket } from 'node:net'
import type { CommandContext } from '../../commands/context.ts'
import type { Hindrance } from '../../core/errors.ts'
import type { Plan } from '../../core/plan/step.ts'
import type { SnapshotId } from '../../core/snapshots/record.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { VmCounters } from '../../core/world/counters.ts'
import type { Log } from '../../log/log.ts'
import type { ConsoleHub } from '../../owners/console/console-hub.ts'
import type { ImageShelf } from '../../owners/images/image-shelf.ts'
import type { Arrivals } from '../../owners/migration/arrivals.ts'
import type { HostView } from '../../owners/capacity/host-report.ts'
import type { SshSessions } from '../../owners/console/ssh-sessions.ts'
import type { VmInputs } from '../../core/vm/create.ts'
import type { SocketTime } from '../console/console-socket.ts'
import type { CertificateEnds } from './certificate-ends.ts'
import type { Clients } from './clients.ts'
import type { AnswerObserver } from '../listener/answer-end.ts'
import type { ReadableMetrics } from '../metrics/metrics-route.ts'
import type { Health } from '../listener/health.ts'
import type { Waits } from './waits.ts'

/** Files that are embedded in the executable; a daemon that runs from its sources reads them beside those. */
export type PageAsset = 'scalar.js' | 'errors.md' | 'console.js' | 'console.css' | 'vms.js' | 'vms.css'

/** Everything that the controller API needs from the rest of the daemon. */
export type ApiDependencies = Health & {
  /** Undefined until the store is open; until then routes that need it answer 503 `starting_up`. */
  readonly context: () => CommandContext | undefined
  /** Long polls of VMs. */
  readonly waits: Waits<VmId>
  readonly snapshotWaits: Waits<SnapshotId>
  /** Watches of the list of VMs. */
  readonly listWaits: Waits<'vms'>
  /** Streams of events that wait for the next one. */
  readonly eventWaits: Waits<'events'>
  /**
   * Returns what a pass would do for this record now, on a fresh look at the host. Changes nothing. Looks for plans and
   * counters wait for each other. Rejects with the signal's reason if it aborts before the look begins.
   */
  readonly plan: (record: VmRecord, inputs: VmInputs, signal: AbortSignal) => Promise<Plan>
  /** Throws HostFault. Waits as `plan` does. */
  readonly counters: (record: VmRecord, signal: AbortSignal) => Promise<VmCounters>
  /** Returns the view of this whole host, from a fresh look. Throws HostFault. */
  readonly hostView: () => Promise<HostView>
  /** When the certificates that this host depends on expire. */
  readonly certificates: CertificateEnds
  /** Faults of the host itself, whatever its VMs do. */
  readonly hostFaults: () => readonly Hindrance[]
  readonly metrics: ReadableMetrics
  readonly onAnswered?: AnswerObserver
  /** Clients with their roles; absent without TLS, and then everyone is the controller. */
  readonly clients?: Clients
  /** Images in the pool. */
  readonly images: Pick<ImageShelf, 'list' | 'requestRemoval'>
  /** VMs that come from other hosts. */
  readonly arrivals: Pick<Arrivals, 'readOffer'>
  /** Viewers of serial consoles. */
  readonly consoles: ConsoleHub
  /** Shells in guests. */
  readonly shells: Pick<SshSessions, 'open'>
  /** Ends a connection whose peer acknowledges nothing for so many milliseconds. */
  readonly endIfGone: (socket: Socket, ms: number) => void
  /** The clock and timers for WebSockets. */
  readonly time: SocketTime
  readonly readAsset: (name: PageAsset) => Uint8Array
  readonly log: Log
}
