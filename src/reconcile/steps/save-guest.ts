import { errorChain } from '../../log/error-chain.ts'
import { subjectOf } from './executor.ts'
import type { TrafficSubject } from '../../core/idle/traffic-state.ts'
import type { Executor, StepContext } from './executor.ts'

/** What a guest that goes on must not wait for: neither a change nor the end of the daemon may leave it standing. */
const always = new AbortController().signal

/**
 * Afterwards the guest stands still and is published in the pool, or it goes on: where a packet that counts came since
 * `packets` were counted, where it is told to stop, and where anything fails before what was saved is published. The
 * unit is not ended here: that takes a fresh look.
 */
export const saveGuest: Executor<'monitor.ensure-saved'> = async ({ packets }, context) => {
  const { host, signal } = context
  const subject = subjectOf(context)
  const wanted = new AbortController()
  const stopWatching = host.traffic.watch((userId) => {
    if (userId === subject.userId) wanted.abort()
  })
  const course: Course = { mayBePublished: false }
  try {
    const isIdle = async (): Promise<boolean> =>
      !wanted.signal.aborted && (await countedPackets(context, subject)) === packets
    const isSaved = await save(context, { isIdle, signal: AbortSignal.any([signal, wanted.signal]), course })
    if (!isSaved) await goOn(context, subject, course)
  } catch (error) {
    const [wentOn] = await Promise.allSettled([goOn(context, subject, course)])
    // Whoever keeps it awake without a packet wants it for longer than until the next look.
    if (signal.aborted) await host.traffic.restart(subject)
    // The first fault is the one to tell; what is left undone the next look finds. To be wanted is no failure.
    if (wentOn.status === 'rejected') {
      if (wanted.signal.aborted && !signal.aborted) throw wentOn.reason
      context.log.warn({ error: errorChain(wentOn.reason) }, 'not all was undone of a save that failed')
    }
    if (!wanted.signal.aborted || signal.aborted) throw error
  } finally {
    stopWatching()
  }
}

/** How far it came. */
type Course = { mayBePublished: boolean }

type Saving = {
  readonly isIdle: () => Promise<boolean>
  readonly signal: AbortSignal
  readonly course: Course
}

/** False where the guest is not idle any more. */
async function save(context: StepContext, { isIdle, signal, course }: Saving): Promise<boolean> {
  const { host, record } = context
  const { id } = record
  signal.throwIfAborted()
  if (!(await isIdle())) return false
  await host.monitor.ensurePaused(id, signal)
  // A packet that came before the guest stood still may have been taken by it; then it has something to do.
  if (!(await isIdle())) return false
  await host.savedStates.ensureMemoryFile(id, record.host.userId)
  const monitor = await host.monitor.save(id, host.savedStates.paths(id).writing, signal)
  if (!(await isIdle())) return false
  signal.throwIfAborted()
  const { cpuMillicores, memoryMib } = record.launch?.compute ?? record.desired.compute
  const terms = { savedAtMs: host.clock.now(), monitor, compute: { cpuMillicores, memoryMib } }
  course.mayBePublished = true
  const beganMs = host.clock.monotonicMs()
  const { storedBytes } = await host.savedStates.publish(id, terms, signal)
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

async function countedPackets({ host }: StepContext, subject: TrafficSubject): Promise<number | undefined> {
  const traffic = await host.traffic.inspect(subject)
  return traffic.kind === 'watched' ? traffic.packets : undefined
}

/**
 * The guest runs at once. Only where it may be published already, that goes before: a guest is never in the pool as it
 * was while it is somewhere else as it is. Where that cannot be removed the guest stands still, and the next look decides.
 * What is unfinished goes whatever becomes of its frames.
 */
async function goOn(
  context: StepContext,
  subject: TrafficSubject,
  { mayBePublished }: Course,
): Promise<void> {
  const { host, record } = context
  const { id } = record
  if (mayBePublished) await host.savedStates.removePublished(id)
  context.notes.givenUp = true
  await host.monitor.ensureRunning(id, always)
  host.monitor.tellTime(id)
  try {
    context.notes.delivery = await host.traffic.ensureFlowing(subject, { deliver: true })
  } finally {
    await host.savedStates.remove(id)
  }
}
