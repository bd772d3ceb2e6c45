import { limits } from '../config/limits.ts'
import { isLaunched, mustEnd } from '../core/vm/record.ts'
import { warnOfFault } from '../log/log.ts'
import type { VmId } from '../core/ids.ts'
import type { GuestsAtShutdown } from '../core/plan/facet.ts'
import type { StopKind, VmRecord } from '../core/vm/record.ts'
import type { WorkerContext } from './context.ts'

/** The guests of a host that shuts down, by how each ended. Those that are left end with their units. */
export type EndedGuests = {
  readonly saved: readonly VmId[]
  readonly ended: readonly VmId[]
  readonly left: readonly VmId[]
}

export type HostEndTerms = {
  /** After this time the rest is asked to end, although some may still be saved. */
  readonly savesMs: number
  readonly signal: AbortSignal
}

/** The workers of the VMs, as the shutdown of the host needs them. */
export type Workers = {
  /** Gives a VM a worker, if it has none. */
  readonly ensure: (id: VmId) => void
  readonly pokeAll: (reason: string) => void
  /** Resolves when no worker has anything to do before a timer or a poke. */
  readonly idle: () => Promise<void>
  readonly betweenPasses: (id: VmId, task: () => Promise<void>) => Promise<unknown>
}

/**
 * Ends the guests of this boot as the host shuts down, and lets nothing start any more. Those that run are saved, as
 * many as the policy says, and the rest is asked to end. The record of each says first that it is wanted again after
 * the boot. Guests within the grace of a stop have what is left of it. Resolves with what became of all when nothing
 * more can be done, or soon after the signal.
 */
export async function endWithHost(
  context: WorkerContext,
  workers: Workers,
  { policy, savesMs, signal }: HostEndTerms & { readonly policy: GuestsAtShutdown },
): Promise<EndedGuests> {
  const { store, hostEnd } = context
  hostEnd.begin(policy)
  const ids = guestsOf(context)
  const graced = guestsInGrace(context)
  // A daemon that was just started has no workers yet.
  for (const id of [...ids, ...graced]) workers.ensure(id)
  await noteAllWanted(context, ids)
  workers.pokeAll('the host shuts down')
  await untilIdle(context, workers, savesMs)
  // From here on, guests that could not be saved are asked to end too.
  hostEnd.begin('ask')
  const isUnsaved = (id: VmId): boolean => store.vms.get(id)?.observed.savedState === undefined
  if (ids.some(isUnsaved)) workers.pokeAll('the host shuts down')
  const graceMs = policy === 'save' ? limits.shutdownGraceMs : Infinity
  const there = await untilEnded(
    context,
    { unsaved: () => ids.filter(isUnsaved), graced },
    { graceMs, signal },
  )
  for (const record of inGrace(context, graced)) noteGraceOver(context, record, there.has(record.id))
  const unsaved = new Set(ids.filter(isUnsaved))
  const saved = ids.filter((id) => !unsaved.has(id))
  const ended = [...unsaved].filter((id) => !there.has(id))
  const left = [...unsaved].filter((id) => there.has(id))
  // A pass that began before would write what it read.
  await Promise.all(
    ended.map((id) => workers.betweenPasses(id, async () => noteStop(context, id, 'graceful'))),
  )
  // systemd ends their units. A pass of them may hang, and the time is over.
  for (const id of left) noteStop(context, id, 'deadline')
  const stopped = graced.filter((id) => store.vms.get(id)?.stops.grace === undefined)
  const isLeft = (id: VmId): boolean =>
    there.has(id) && store.vms.get(id)?.observed.lastStop?.kind === 'deadline'
  return {
    saved,
    ended: [...ended, ...stopped.filter((id) => !isLeft(id))],
    left: [...left, ...stopped.filter(isLeft)],
  }
}

/** Notes on the disk that guests are wanted after the boot. */
async function noteAllWanted(context: WorkerContext, ids: readonly VmId[]): Promise<void> {
  const { store, host } = context
  const atMs = host.clock.now()
  for (const id of ids) noteWanted(context, id, atMs)
  await store.flushed()
}

/** Notes that a guest is wanted after the boot. If that cannot be written, the guest is still saved or asked to end. */
function noteWanted({ store, log }: WorkerContext, id: VmId, atMs: number): void {
  try {
    store.vms.requestWake(id, { reason: 'host_booted', atMs })
  } catch (error) {
    warnOfFault(log, error, 'guest not noted as wanted after the boot', { vm_id: id })
  }
}

/**
 * Notes how the shutdown of the host stopped a guest. Without a launch on record its end does not count as an exit,
 * even if this boot goes on because only the userspace restarts, or because the shutdown is called off. A guest that
 * still runs then is adopted.
 */
function noteStop({ store, host }: WorkerContext, id: VmId, kind: StopKind): void {
  const record = store.vms.get(id)
  if (record === undefined) return
  const nowMs = host.clock.now()
  const observed = { ...record.observed, lastStop: { atMs: nowMs, kind } }
  store.vms.recordProgress(id, { observed, launch: null, nowMs })
}

/** Returns the VMs whose guests were started in this boot and may go on. */
function guestsOf({ store, host }: WorkerContext): readonly VmId[] {
  return store.vms.ids().filter((id) => {
    const record = store.vms.readable(id)
    return record !== undefined && isLaunched(record, host.bootId) && !mustEnd(record)
  })
}

/** Returns the VMs whose guests were started in this boot and may end by themselves, within the grace of a stop. */
function guestsInGrace({ store, host }: WorkerContext): readonly VmId[] {
  return store.vms.ids().filter((id) => {
    const record = store.vms.readable(id)
    if (record === undefined || record.deleting) return false
    return record.stops.grace !== undefined && isLaunched(record, host.bootId)
  })
}

/** Waits until no worker has anything to do, at most this long. */
async function untilIdle({ host }: WorkerContext, workers: Workers, boundMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const cancel = host.clock.after(boundMs, resolve)
  await Promise.race([workers.idle(), promise])
  cancel()
}

/** Returns those whose grace lasts. A guest that is saved meanwhile keeps its grace for after the boot. */
const inGrace = ({ store }: WorkerContext, graced: readonly VmId[]): readonly VmRecord[] =>
  graced
    .map((id) => store.vms.get(id))
    .filter((record) => record !== undefined)
    .filter(({ stops, observed }) => stops.grace !== undefined && observed.savedState === undefined)

/**
 * Notes that the shutdown of the host ended the grace of a stop, and systemd ends the unit. If the unit is gone, the
 * guest has ended, and only no pass has noted it yet.
 */
function noteGraceOver(
  { store, host }: WorkerContext,
  { id, stops, observed }: VmRecord,
  isThere: boolean,
): void {
  if (stops.grace === undefined) return
  const nowMs = host.clock.now()
  const { stop: generation, askedAtMs } = stops.grace
  const endedAs = askedAtMs === undefined ? 'hard' : 'graceful'
  const lastStop = { atMs: nowMs, kind: isThere ? 'deadline' : endedAs, generation } as const
  store.vms.recordProgress(id, { observed: { ...observed, lastStop }, graceOver: generation, nowMs })
}

/** The guests that a shutdown of the host waits for. */
type Awaited = { readonly unsaved: () => readonly VmId[]; readonly graced: readonly VmId[] }

/**
 * Waits until the units of the VMs that are not saved have ended, or their time is over, and until passes have noted
 * how the graces of the others ended; at most until the signal. Returns those whose units the last look has seen.
 */
async function untilEnded(
  context: WorkerContext,
  { unsaved, graced }: Awaited,
  { graceMs, signal }: { readonly graceMs: number; readonly signal: AbortSignal },
): Promise<ReadonlySet<VmId>> {
  const { clock } = context.host
  const endMs = clock.monotonicMs() + graceMs
  for (;;) {
    const ids = unsaved()
    const looked = [...ids, ...graced]
    const there = new Set(looked.length === 0 ? [] : await activeOf(context, looked))
    const isOver = clock.monotonicMs() >= endMs || !ids.some((id) => there.has(id))
    if (signal.aborted || (isOver && inGrace(context, graced).length === 0)) return there
    await new Promise<void>((resolve) => void clock.after(limits.shutdownLookMs, resolve))
  }
}

/** Returns those VMs whose units are active; all of them if that cannot be seen now. */
async function activeOf({ host, log }: WorkerContext, ids: readonly VmId[]): Promise<readonly VmId[]> {
  try {
    const active = new Set(await host.units.active())
    return ids.filter((id) => active.has(id))
  } catch (error) {
    warnOfFault(log, error, 'units not seen while the host shuts down; looked at again')
    return ids
  }
}
