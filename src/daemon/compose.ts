import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { Semaphore } from '../lib/semaphore.ts'
import { nameServersOf, outboundPolicyOf } from './policies.ts'
import { CertificateEnds } from '../api/controller/certificate-ends.ts'
import { Waits } from '../api/controller/waits.ts'
import { rebootVm } from '../commands/vm/set-power.ts'
import { wakeVm } from '../commands/vm/wake-vm.ts'
import { ConsoleHub } from '../owners/console/console-hub.ts'
import { GuestLooks } from '../owners/guest/guest-looks.ts'
import { HostInspector } from '../owners/capacity/host-inspector.ts'
import { HostReport } from '../owners/capacity/host-report.ts'
import { RecordsWatch } from '../owners/capacity/records-watch.ts'
import { ImageShelf } from '../owners/images/image-shelf.ts'
import { Drainer } from '../owners/maintenance/drainer.ts'
import { Activity } from '../owners/metrics/activity.ts'
import { Arrivals } from '../owners/migration/arrivals.ts'
import { OfferExpiry } from '../owners/migration/offer-expiry.ts'
import { SourceSide } from '../owners/migration/source-side.ts'
import { endIfGone } from '../host/ffi/tcp-socket.ts'
import { BandwidthLimit } from '../host/object-store/transfer-limits.ts'
import { Snapshots } from '../owners/snapshots/snapshots.ts'
import { SshSessions } from '../owners/console/ssh-sessions.ts'
import { explain, planFor } from '../reconcile/explain-vm.ts'
import { readCounters } from '../reconcile/observe/counters.ts'
import { Reconciler } from '../reconcile/reconciler.ts'
import { readAsset } from './assets.ts'
import { buildMetrics, buildMetricsDependencies } from './build-metrics.ts'
import { given } from '../lib/given.ts'
import type { ApiDependencies } from '../api/controller/dependencies.ts'
import type { MetricsDependencies } from '../api/metrics/metrics-api.ts'
import type { CoordinationDependencies } from '../api/coordination/dependencies.ts'
import type { CommandContext } from '../commands/context.ts'
import type { Config } from '../config/config.ts'
import type { TrustSeen } from '../core/events/certificate-events.ts'
import type { Metrics } from '../owners/metrics/metrics.ts'
import type { Hindrance } from '../core/errors.ts'
import type { OperationId, VmId } from '../core/ids.ts'
import type { Log } from '../log/log.ts'
import type { Capacity } from '../ports/capacity.ts'
import type { Graces } from '../reconcile/remembered.ts'
import type { GuestProbes } from '../ports/guest-probes.ts'
import type { GuestShells } from '../ports/guest-shells.ts'
import type { Host } from '../ports/host.ts'
import type { HostFigures } from '../ports/host-figures.ts'
import type { ExplainContext } from '../reconcile/explain-vm.ts'
import type { Store } from '../store/store.ts'

/** Settings for the parts of the daemon; the drivers and the listener take others. */
export type Settings = Pick<
  Config,
  'host' | 'network' | 'objectStore' | 'storage' | 'snapshots' | 'capacity' | 'coordination'
>

/** Parts that carry out stored changes: the workers of VMs, and the owner of snapshots. */
type Actors = Pick<CommandContext, 'poke' | 'notice' | 'pokeHost' | 'pokeSnapshot'>

export type Parts = {
  readonly store: Store
  readonly host: Host
  readonly figures: HostFigures
  readonly shells: GuestShells
  readonly probes: GuestProbes
  /** Returns whether systemd keeps the consoles of this service while it is down. */
  readonly isDescriptorStoreAvailable: () => Promise<boolean>
  readonly settings: Settings
  readonly readiness: {
    /** See {@link ApiDependencies.waitingFor}. */
    readonly waitingFor: () => readonly string[]
    /** False until everything that VMs depend on is adopted: before that, a stored console would look missing. */
    readonly takesCommands: () => boolean
  }
  readonly newOperationId: () => OperationId
  /** Version of this build. */
  readonly version: string
  readonly log: Log
  /** Replacements that a test gives for parts that are built here. */
  readonly instead?: { readonly capacity?: Capacity; readonly actors?: Actors }
}

/** All parts of the daemon between its listener and its drivers, wired and not yet started. */
export type Composition = {
  readonly commands: CommandContext
  readonly reconciler: Reconciler
  readonly inspector: HostInspector
  readonly images: ImageShelf
  readonly snapshots: Snapshots
  readonly offers: OfferExpiry
  readonly drainer: Drainer
  readonly guests: GuestLooks
  /** The source's side of migrations. */
  readonly source: SourceSide
  readonly arrivals: Arrivals
  readonly shells: SshSessions
  readonly api: ApiDependencies
  readonly coordination: CoordinationDependencies
  readonly metrics: Metrics
  /** The parts of the daemon for the listener of metrics. */
  readonly metricsDependencies: MetricsDependencies
  /** Returns the plan of a VM and its reasons as text; undefined if there is no such VM. */
  readonly explain: (id: VmId) => Promise<string | undefined>
}

/** Builds the daemon from its parts. Has no effect on the host: {@link Composition} says what to start afterwards. */
export function compose(parts: Parts): Composition {
  const { store, host, log } = parts
  const activity = new Activity()
  const reconciler: Reconciler = new Reconciler(
    { store, host, log, observer: activity, onImage: () => inspector.noticeImage() },
    () => parts.instead?.capacity ?? inspector,
  )
  const records = new RecordsWatch({ store, clock: host.clock, log })
  const inspector = buildInspector(parts, reconciler, () => records.look())
  const images = buildImages(parts)
  const snapshots = buildSnapshots(parts, reconciler, inspector)
  const actors: Actors = parts.instead?.actors ?? {
    poke: (id, reason) => reconciler.poke(id, reason),
    notice: (id, reason) => reconciler.notice(id, reason),
    pokeHost: (reason) => {
      reconciler.pokeAll(reason)
      drainer.poke()
      arrivals.pokeHost()
    },
    pokeSnapshot: (id, request) => snapshots.poke(id, request),
  }
  const commands = buildCommands(parts, { ...actors, inspector, graces: reconciler.graces })
  const drainer: Drainer = buildDrainer(parts, commands)
  const source = buildSource(parts, reconciler, actors.poke)
  const arrivals = buildArrivals(parts, reconciler, actors.poke)
  const shells = buildShells(parts, commands)
  const looker = lookerOf(parts, reconciler)
  const certificates = new CertificateEnds(log, Date.now, (seen, nowMs) => noteTrust(store, seen, nowMs))
  const hostFaults = (): readonly Hindrance[] => [
    ...(records.fault === undefined ? [] : [records.fault]),
    ...certificates.fileFaults(),
  ]
  const metrics = buildMetrics(parts, { activity, inspector, certificates, hostFaults })
  return {
    commands,
    reconciler,
    inspector,
    images,
    snapshots,
    offers: new OfferExpiry({ store, clock: host.clock, poke: actors.poke, log }),
    drainer,
    guests: new GuestLooks({ store, host, probes: parts.probes, log }),
    arrivals,
    shells,
    api: buildApi(parts, {
      commands,
      inspector,
      images,
      arrivals,
      shells,
      looker,
      activity,
      certificates,
      metrics,
      hostFaults,
    }),
    source,
    coordination: buildCoordination(parts, { departures: source, activity, certificates }),
    metrics,
    metricsDependencies: buildMetricsDependencies(parts, { metrics, certificates }),
    explain: (id) => explain(looker, id),
  }
}

type ApiParts = Pick<Composition, 'commands' | 'inspector' | 'images' | 'arrivals' | 'shells' | 'metrics'> & {
  readonly looker: ExplainContext
  readonly activity: Activity
  readonly certificates: CertificateEnds
  readonly hostFaults: () => readonly Hindrance[]
}

function buildApi(
  parts: Parts,
  { commands, inspector, looker, activity, ...passedOn }: ApiParts,
): ApiDependencies {
  const { store, host, readiness, log } = parts
  const report = buildReport(parts, inspector)
  return {
    ...passedOn,
    waits: new Waits((listener) => store.onVmChange(listener)),
    snapshotWaits: new Waits((listener) => store.onSnapshotChange(listener)),
    listWaits: new Waits((listener) => store.onVmChange(() => listener('vms'))),
    eventWaits: new Waits((listener) => store.events.onAppend(() => listener('events'))),
    ...buildAskedLooks(looker),
    hostView: () => report.take(),
    context: () => (readiness.takesCommands() ? commands : undefined),
    consoles: new ConsoleHub({ consoles: host.consoles, store }),
    time: host.clock,
    endIfGone,
    onAnswered: (answer) => activity.answered({ listener: 'controller', ...answer }),
    waitingFor: readiness.waitingFor,
    readAsset,
    version: parts.version,
    log,
  }
}

const lookerOf = (
  { store, host }: Parts,
  { silences, memory, graces, hostEnd }: Reconciler,
): ExplainContext => ({ store, host, silences, memory, graces, hostEnd })

/**
 * Builds the looks at the host for clients. They share a bound, so that those of the daemon wait for a few of them at
 * most.
 */
function buildAskedLooks(looker: ExplainContext): Pick<ApiDependencies, 'plan' | 'counters'> {
  const places = new Semaphore(limits.askedLooksMax)
  return {
    plan: (record, inputs, signal) => places.run(() => planFor(looker, record, inputs), signal),
    counters: (record, signal) => places.run(() => readCounters(looker.host, record), signal),
  }
}

/** Stores what has changed of the certificates. While that cannot be written, a later look finds it again. */
function noteTrust(store: Store, seen: TrustSeen, nowMs: number): void {
  try {
    store.certificates.note(seen, nowMs)
  } catch (error) {
    if (!(error instanceof HostFault)) throw error
  }
}

const buildDrainer = ({ store, host, log }: Parts, commands: CommandContext): Drainer =>
  new Drainer({
    store,
    clock: host.clock,
    bootId: host.bootId,
    poke: commands.poke,
    stop: (id, graceSeconds) => void rebootVm(commands, id, { graceSeconds }),
    log,
  })

function buildSource(
  { store, host, settings, log }: Parts,
  reconciler: Reconciler,
  poke: Actors['poke'],
): SourceSide {
  const { clock } = host
  const limit = new BandwidthLimit(settings.coordination.mbitPerSecond, clock)
  return new SourceSide({
    store,
    host,
    clock,
    poke,
    betweenPasses: (id, task) => reconciler.betweenPasses(id, task),
    pace: (bytes, signal) => limit.spend(bytes, signal),
    log,
  })
}

const buildArrivals = ({ store, host, log }: Parts, reconciler: Reconciler, poke: Actors['poke']): Arrivals =>
  new Arrivals({
    store,
    host,
    poke,
    betweenPasses: (id, task) => reconciler.betweenPasses(id, task),
    log,
  })

const buildCoordination = (
  { readiness, version, log }: Parts,
  {
    departures,
    activity,
    certificates,
  }: {
    readonly departures: SourceSide
    readonly activity: Activity
    readonly certificates: CertificateEnds
  },
): CoordinationDependencies => ({
  departures: () => (readiness.takesCommands() ? departures : undefined),
  waitingFor: readiness.waitingFor,
  errorsMarkdown: () => readAsset('errors.md'),
  watchLists: (state) => certificates.watchLists('coordination', state),
  noteFiles: (refused) => certificates.noteFiles('coordination', refused),
  onAnswered: (answer) => activity.answered({ listener: 'coordination', ...answer }),
  version,
  log,
})

function buildCommands(
  { store, host, settings, newOperationId, instead }: Parts,
  { inspector, graces, ...actors }: Actors & { readonly inspector: HostInspector; readonly graces: Graces },
): CommandContext {
  const { localImagesDirectory } = settings.storage
  return {
    store,
    bootId: host.bootId,
    capacity: instead?.capacity ?? inspector,
    guestRanges: settings.network.guestRanges,
    nameServers: nameServersOf(settings),
    outbound: outboundPolicyOf(settings),
    ...given({ localImagesDirectory }),
    stagingQuotaMib: () => inspector.stagingQuotaMib(),
    now: () => host.clock.now(),
    timed: (record) => graces.timed(record, host.clock.now()),
    newOperationId,
    ...actors,
  }
}

function buildShells({ shells, store, host, log }: Parts, commands: CommandContext): SshSessions {
  return new SshSessions({
    shells,
    store,
    clock: host.clock,
    wake: (id) => wakeVm(commands, id, 'console'),
    log,
  })
}

function buildInspector(
  { figures, host, settings, log }: Parts,
  reconciler: Reconciler,
  onLook: () => void,
): HostInspector {
  return new HostInspector({
    figures,
    storage: host.storage,
    clock: host.clock,
    consoles: host.consoles,
    monitorMib: (kind, guestMib) => host.monitors[kind].memoryMib(guestMib),
    policy: { ...settings.capacity, stagingQuotaMib: settings.snapshots.stagingQuotaMib },
    log,
    onChange: (change) => reconciler.pokeAll(change),
    onLook,
  })
}

function buildImages({ store, host: { storage, clock }, settings, log }: Parts): ImageShelf {
  return new ImageShelf({ storage, store, clock, idleHours: settings.storage.imageIdleHours, log })
}

function buildSnapshots(
  { store, host, settings, log }: Parts,
  reconciler: Reconciler,
  inspector: HostInspector,
): Snapshots {
  const { uploadsMax, stagingMaxAgeHours } = settings.snapshots
  return new Snapshots({
    store,
    host,
    betweenPasses: (id, task) => reconciler.betweenPasses(id, task),
    uploadsMax,
    stagingQuotaMib: () => inspector.stagingQuotaMib(),
    stagingMaxAgeHours,
    log,
  })
}

function buildReport(
  { store, host, figures, settings, ...parts }: Parts,
  inspector: HostInspector,
): HostReport {
  return new HostReport({
    names: {
      id: settings.host.id,
      bootId: host.bootId,
      version: parts.version,
      sshPublicKey: host.sshPublicKey,
    },
    inspector,
    figures,
    units: host.units,
    consoles: host.consoles,
    staging: host.staging,
    storage: host.storage,
    isDescriptorStoreAvailable: parts.isDescriptorStoreAvailable,
    log: parts.log,
    store,
    clock: host.clock,
  })
}
