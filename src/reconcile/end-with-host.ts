import { limits } from '../config/limits.ts'
import { isLaunched, mustEnd } from '../core/vm/record.ts'
import { warnOfFault } from '../log/log.ts'
import type { VmId } from '../core/ids.ts'
import type { StopKind, VmRecord } from '../core/vm/record.ts'
import type { WorkerContext } from './context.ts'

/** Policy for guests that run when the host shuts down. */
export type HostPolicy = 'save' | 'stop'

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
  { policy, savesMs, signal }: HostEndTerms & { readonly policy: HostPolicy },
): Promise<EndedGuests> {
  const { store, hostEnd } = context
  hostEnd.begin(policy === 'save' ? 'save' : 'ask')
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
  const [left, stopped] = await Promise.all([
    untilEnded(context, () => ids.filter(isUnsaved), { graceMs, signal }),
    untilStopped(context, graced, signal),
  ])
  const unsaved = new Set(ids.filter(isUnsaved))
  const saved = ids.filter((id) => !unsaved.has(id))
  const ended = [...unsaved].filter((id) => !left.includes(id))
  // A pass that began before would write what it read.
  await Promise.all(
    ended.map((id) => workers.betweenPasses(id, async () => noteStop(context, id, 'graceful'))),
  )
  // systemd ends their units. A pass of them may hang, and the time is over.
  for (const id of left) noteStop(context, id, 'deadline')
  return { saved, ended: [...ended, ...stopped.ended], left: [...left, ...stopped.left] }
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

/**
 * Waits until passes have noted how the graces of these stops ended, at most until the signal. The bound of the
 * shutdown then ends the others. A guest that is saved meanwhile keeps its grace for after the boot.
 */
async function untilStopped(
  context: WorkerContext,
  graced: readonly VmId[],
  signal: AbortSignal,
): Promise<Pick<EndedGuests, 'ended' | 'left'>> {
  const { store, host } = context
  const inGrace = (): readonly VmRecord[] =>
    graced
      .map((id) => store.vms.get(id))
      .filter((record) => record !== undefined)
      .filter(({ stops, observed }) => stops.grace !== undefined && observed.savedState === undefined)
  while (inGrace().length > 0 && !signal.aborted)
    await new Promise<void>((resolve) => void host.clock.after(limits.shutdownLookMs, resolve))
  for (const record of inGrace()) noteDeadline(context, record)
  const isLeft = (id: VmId): boolean => store.vms.get(id)?.observed.lastStop?.kind === 'deadline'
  const isOver = (id: VmId): boolean => store.vms.get(id)?.stops.grace === undefined
  const over = graced.filter(isOver)
  return { ended: over.filter((id) => !isLeft(id)), left: over.filter(isLeft) }
}

/** Notes that the shutdown of the host ended the grace of a stop. systemd ends the unit. */
function noteDeadline({ store, host }: WorkerContext, { id, stops, observed }: VmRecord): void {
  if (stops.grace === undefined) return
  const nowMs = host.clock.now()
  const { stop: generation } = stops.grace
  const lastStop = { atMs: nowMs, kind: 'deadline', generation } as const
  store.vms.recordProgress(id, { observed: { ...observed, lastStop }, graceOver: generation, nowMs })
}

/**
 * Waits until the units of the VMs that are not saved have ended; returns those that have not in time, or when the
 * signal comes.
 */
async function untilEnded(
  context: WorkerContext,
  unsaved: () => readonly VmId[],
  { graceMs, signal }: { readonly graceMs: number; readonly signal: AbortSignal },
): Promise<readonly VmId[]> {
  const { clock } = context.host
  const endMs = clock.monotonicMs() + graceMs
  for (;;) {
    const ids = unsaved()
    const left = ids.length === 0 ? [] : await activeOf(context, ids)
    if (left.length === 0 || signal.aborted || clock.monotonicMs() >= endMs) return left
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
