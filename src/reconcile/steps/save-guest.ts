import { errorChain } from '../../log/error-chain.ts'
import { hasLeft, isNotReleased } from '../../core/vm/leaving.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { SavingMonitor } from '../../core/world/saved-state.ts'
import type { Executor, StepContext } from './executor.ts'

/**
 * Saves the guest and publishes it, or lets it run again. It runs again if a packet came since `packets` were counted
 * (unless `anyway`), if the step is aborted, or if anything fails before the publication. Ending the unit needs another
 * look, so it does not happen here.
 *
 * Once the step is abandoned it does nothing more. The next look decides about the guest, which may be saved again by
 * then.
 */
export const saveGuest: Executor<'monitor.ensure-saved'> = async ({ packets, anyway }, context) => {
  const { host, record, signal } = context
  const wanted = new AbortController()
  const stopWatching = host.traffic.watch(() => {
    if (!anyway) wanted.abort()
  }, record.host)
  const publication: Publication = { mayBePublished: false }
  try {
    const isIdle = async (): Promise<boolean> =>
      anyway || (!wanted.signal.aborted && (await countedPackets(context)) === packets)
    const isSaved = await save(context, {
      isIdle,
      signal: AbortSignal.any([signal, wanted.signal]),
      publication,
    })
    if (!isSaved) await undoSave(context, publication)
  } catch (error) {
    context.abandoned.throwIfAborted()
    const [undone] = await Promise.allSettled([undoSave(context, publication)])
    context.abandoned.throwIfAborted()
    // A request without a packet wants the guest for longer than until the next look.
    if (signal.aborted) await host.traffic.restart(record.host)
    const isOnlyWanted = wanted.signal.aborted && !signal.aborted
    if (isOnlyWanted) {
      // That a guest is wanted is not a failure. That it was not let run again is one.
      if (undone.status === 'rejected') throw undone.reason
      return
    }
    // The first fault is the one to report; the next look finds what was not undone.
    if (undone.status === 'rejected')
      context.log.warn({ error: errorChain(undone.reason) }, 'failed save not fully undone')
    throw error
  } finally {
    stopWatching()
  }
}

/**
 * Returns whether the guest may run here until it is saved. One that is handed over may: no other host gets it before
 * its unit has ended.
 */
const mayRun = (record: VmRecord): boolean =>
  record.desired.power === 'running' && !hasLeft(record) && !isNotReleased(record)

/** How far the save has come. */
type Publication = { mayBePublished: boolean }

type Saving = {
  readonly isIdle: () => Promise<boolean>
  readonly signal: AbortSignal
  readonly publication: Publication
}

/** Saves the guest; returns false if the guest is not idle any more. */
async function save(context: StepContext, { isIdle, signal, publication }: Saving): Promise<boolean> {
  const { host, record } = context
  const { id } = record
  signal.throwIfAborted()
  if (!(await isIdle())) return false
  await host.monitors[record.monitor].ensurePaused(id, signal)
  // The guest may have received a packet just before it was paused. Then it has something to do.
  if (!(await isIdle())) return false
  signal.throwIfAborted()
  await host.savedStates.ensureMemoryFile(id, record.host.userId)
  const { writing } = host.savedStates.paths(id)
  const { cpuMillicores, memoryMib } = record.launch?.compute ?? record.desired.compute
  const guest = { id, path: writing, memoryMib, mayRun: mayRun(record) }
  const saving = (): Promise<SavingMonitor> => host.monitors[record.monitor].save(guest, signal)
  const { saved: monitor, flushed } = await host.savedStates.flushingWhile(id, saving)
  if (!(await isIdle())) return false
  signal.throwIfAborted()
  const terms = { savedAtMs: host.clock.now(), monitor, compute: { cpuMillicores, memoryMib } }
  publication.mayBePublished = true
  const beganMs = host.clock.monotonicMs()
  const { storedBytes } = await host.savedStates.publish(id, terms, signal, flushed)
  context.log.info(
    {
      memory_mib: memoryMib,
      written_bytes: storedBytes,
      ms: Math.round(host.clock.monotonicMs() - beganMs),
    },
    'saved state published',
  )
  return true
}

async function countedPackets({ host, record }: StepContext): Promise<number | undefined> {
  const traffic = await host.traffic.inspect(record.host)
  return traffic.kind === 'watched' ? traffic.packets : undefined
}

/**
 * Resumes the guest and removes what was saved. If its state may already be published, that state is removed first, so
 * that an old copy of a running guest is never in the pool. If the removal fails, the guest stays paused, and the next
 * look decides. The guest gets its frames before the save has ended, because clients wait for it. An unfinished state
 * is removed even if the delivery of frames fails.
 */
async function undoSave(context: StepContext, { mayBePublished }: Publication): Promise<void> {
  const { host, record, abandoned } = context
  const { id } = record
  abandoned.throwIfAborted()
  if (mayBePublished) await host.savedStates.removePublished(id)
  abandoned.throwIfAborted()
  context.notes.givenUp = true
  const monitor = host.monitors[record.monitor]
  const isToRun = mayRun(record)
  // It must be resumed even if a change comes or the daemon ends.
  if (isToRun) await monitor.resumeFromSave(id, abandoned)
  abandoned.throwIfAborted()
  monitor.agent.setGuestTime(id)
  try {
    context.notes.delivery = await host.traffic.ensureFlowing(record.host, { deliver: true })
  } finally {
    if (!abandoned.aborted) {
      await (isToRun ? monitor.ensureRunning(id, abandoned) : monitor.ensurePaused(id, abandoned))
      await host.savedStates.remove(id)
    }
  }
}
