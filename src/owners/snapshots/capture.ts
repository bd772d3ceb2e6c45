import { limits } from '../../config/limits.ts'
import { captureMoment } from '../../core/snapshots/capture-moment.ts'
import { judgeDisk, judgeUnit } from '../../core/vm/judge-owner.ts'
import { abortable } from '../../lib/abortable.ts'
import { MIB, mibOf, mibUp } from '../../lib/byte-units.ts'
import { thaw } from './thaws.ts'
import { CourseEnd, done, failed } from './outcome.ts'
import { warnOfFault } from '../../log/log.ts'
import type { Capture, SnapshotRecord } from '../../core/snapshots/record.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { FreezeOutcome } from '../../ports/monitor.ts'
import type { Task } from './context.ts'
import type { Outcome } from './outcome.ts'

/** A capture whose clone is not durable yet, and the size that the record gave the disk when it was cloned. */
type Cloned = Omit<Capture, 'imageBytes'> & { readonly diskMib: number }

/**
 * Clones the disk of the VM at a moment when nothing changes there. A running guest is paused only for the clone
 * itself. Slower work comes before it, or after the VM's worker may act again.
 */
export async function capture(task: Task): Promise<Outcome> {
  const { entry, host, flushes, captures, signal, log } = task
  const { vmId } = entry.record
  const vm = vmOf(task)
  if (vm === undefined) return gone(entry.record)
  if (vm.observed.disk === undefined) {
    const { disk } = await host.storage.inspect(vmId, [])
    if (disk.kind === 'absent') return vmBusy('its disk is not made yet; if nothing makes it, start the VM')
  }
  await flushes.run(() => host.staging.flushDisk(vmId, signal), signal)
  // Takes a place for captures first: a task that already holds a worker must not wait for another capture.
  const cloned = await captures.run(() => cloneBetweenPasses(task), signal)
  if ('kind' in cloned) return cloned
  const { imageBytes } = await flushes.run(() => host.staging.keep(entry.stagingId), signal)
  signal.throwIfAborted()
  const { diskMib, ...captured } = cloned
  // A monitor may make its file as long as the file system can: to pack so many zeros would take months.
  if (Math.floor(imageBytes / MIB) > diskMib) return longerThanRecord(entry.record, imageBytes, diskMib)
  entry.advance({ stage: 'packing', capture: { ...captured, imageBytes }, trouble: null })
  const { consistency, pausedMs } = captured
  log.info({ consistency, paused_ms: pausedMs, image_mib: mibOf(imageBytes) }, 'snapshot captured')
  return done
}

/**
 * Clones the disk between two passes of the VM. A pass may take long, so the place for captures goes to others after a
 * moment, and a deleted snapshot does not wait at all. A capture that has begun ends by itself.
 */
async function cloneBetweenPasses(task: Task): Promise<Cloned | Outcome> {
  const { entry, host, betweenPasses, signal } = task
  const late = new AbortController()
  let begun = false
  const capturing = betweenPasses(entry.record.vmId, async (ending, guestMustEnd) => {
    if (late.signal.aborted) return UNDER_WAY
    begun = true
    return cloneUnlessPreempted(task, ending, guestMustEnd)
  })
  const cancel = host.clock.after(limits.captureRetryMs, () => late.abort())
  let outcome: Cloned | Outcome | undefined
  try {
    outcome = await abortable(capturing, AbortSignal.any([signal, late.signal]))
  } catch (error) {
    if (begun) outcome = await capturing
    else if (signal.aborted) throw error
    else outcome = UNDER_WAY
  }
  cancel()
  if (outcome !== undefined) return outcome
  return vmOf(task) === undefined ? gone(entry.record) : vmBusy('the VM has no worker')
}

/** Returns the VM that the snapshot was requested for; not another VM with its id, nor one under deletion. */
function vmOf({ store, entry }: Task): VmRecord | undefined {
  const { vmId, vmCreatedAtMs } = entry.record
  const vm = store.vms.get(vmId)
  return vm?.createdAtMs === vmCreatedAtMs && !vm.deleting ? vm : undefined
}

const gone = ({ vmId }: SnapshotRecord): Outcome =>
  failed('vm_gone', `VM ${vmId} was deleted before its disk was captured`)

const longerThanRecord = ({ vmId }: SnapshotRecord, bytes: number, diskMib: number): Outcome =>
  failed(
    'storage_failed',
    `the disk of VM ${vmId} has ${mibUp(bytes)} MiB in the pool, and its record gives it ${diskMib}`,
  )

const vmBusy = (because: string): Outcome => ({ kind: 'vm_busy', because })

const UNDER_WAY = vmBusy('the VM is in the middle of a longer change')

/** Clones the disk now, unless `ending` aborts before that is done: the VM must stop, or the daemon does. */
async function cloneUnlessPreempted(
  task: Task,
  ending: AbortSignal,
  guestMustEnd: AbortSignal,
): Promise<Cloned | Outcome> {
  try {
    const until = AbortSignal.any([ending, task.signal])
    return await cloneNow(task, { until, guestMustEnd })
  } catch (error) {
    if (ending.aborted && error === ending.reason) return vmBusy('the VM must stop')
    throw error
  }
}

/** Clones the disk as the state of the VM allows: of a guest at rest, or of a running one. */
async function cloneNow(task: Task, { until, guestMustEnd }: Bounds): Promise<Cloned | Outcome> {
  const { host, entry } = task
  until.throwIfAborted()
  const vm = vmOf(task)
  if (vm === undefined) return gone(entry.record)
  const unit = judgeUnit(await host.units.inspect(vm.id), vm, host.storeId)
  const monitor = unit.kind === 'active' ? await host.monitors[vm.monitor].inspect(vm.id) : undefined
  until.throwIfAborted()
  const moment = captureMoment(unit, monitor, vm.desired.power)
  if (moment.kind === 'not_now') return vmBusy(moment.because)
  const { disk } = await host.storage.inspect(vm.id, [])
  until.throwIfAborted()
  const seen = judgeDisk(disk, vm, host.storeId)
  if (seen.kind === 'foreign') return vmBusy(`the disk of its name is another VM's: ${seen.because}`)
  return moment.kind === 'at_rest'
    ? cloneAtRest(task, vm, until)
    : cloneRunning(task, vm, { until, guestMustEnd })
}

/**
 * Clones the disk. A pool that hangs must not delay a stop of the VM: the clone is then left behind, and the next clone
 * removes it.
 */
async function cloneDisk({ host, entry }: Task, vm: VmRecord, until: AbortSignal): Promise<Cloned> {
  await abortable(host.staging.clone(entry.stagingId, vm.id), until)
  return { atMs: host.clock.now(), consistency: 'crash', pausedMs: 0, diskMib: vm.desired.disk.sizeMib }
}

/** Clones the disk of a guest that does not run. The worker of the VM waits for it for a bounded time. */
async function cloneAtRest(task: Task, vm: VmRecord, until: AbortSignal): Promise<Cloned> {
  const bound = boundOf(task, vm.id, limits.captureAtRestMs)
  try {
    return await cloneDisk(task, vm, AbortSignal.any([until, bound.signal]))
  } finally {
    bound.cancel()
  }
}

/** Returns a signal that ends a clone which takes longer than this. The snapshot tries again later. */
function boundOf({ host }: Task, id: VmId, ms: number): { signal: AbortSignal; cancel: () => void } {
  const tooLong = new AbortController()
  const cancel = host.clock.after(ms, () => {
    const message = `the disk of VM ${id} was not cloned within ${ms} ms, and the VM does not wait longer`
    tooLong.abort(new CourseEnd({ kind: 'retry', code: 'storage_failed', message }))
  })
  return { signal: tooLong.signal, cancel }
}

type Bounds = {
  /** Aborts the clone. */
  readonly until: AbortSignal
  /** Also aborts what is done afterwards for a guest that goes on. */
  readonly guestMustEnd: AbortSignal
}

/**
 * Clones the disk of a running guest. Afterwards the guest runs and its file systems are thawed,
 * unless it must end at once.
 */
async function cloneRunning(task: Task, vm: VmRecord, { until, guestMustEnd }: Bounds): Promise<Cloned> {
  const { store, host, entry } = task
  const { id } = vm
  const wasNoted = store.frozenGuests.has(id)
  // Whatever ends the request, the guest may have been frozen by it.
  let freeze: FreezeOutcome = 'unknown'
  store.transaction(() => {
    entry.advance({ stage: 'capturing' })
    store.frozenGuests.note(id)
  })
  await store.flushed()
  try {
    freeze = await host.monitors[vm.monitor].agent.freeze(id, until)
    until.throwIfAborted()
    const cloned = await clonePaused(task, vm, { until, guestMustEnd })
    return { ...cloned, consistency: freeze === 'frozen' ? 'file_system' : 'crash' }
  } finally {
    // File systems that an earlier capture may have frozen keep their note.
    if (freeze === 'none' && !wasNoted) store.frozenGuests.forget(id)
    else await thawNow(task, id, guestMustEnd)
  }
}

/**
 * Thaws the guest. If it must end at once, this does not wait for it; the note stays, because the guest may still run
 * on. A guest that may end by itself is thawed first.
 */
async function thawNow(task: Task, id: VmId, guestMustEnd: AbortSignal): Promise<void> {
  const isOver = !guestMustEnd.aborted && (await thaw(task, id, guestMustEnd)) !== 'not_yet'
  if (!isOver) task.thawLater(id)
}

/** Clones the disk while the guest is paused, which it is for a bounded time. */
async function clonePaused(task: Task, vm: VmRecord, { until, guestMustEnd }: Bounds): Promise<Cloned> {
  const { clock, monitors } = task.host
  const beganMs = clock.monotonicMs()
  const bound = boundOf(task, vm.id, limits.capturePauseMs)
  let cloned: Cloned
  try {
    await monitors[vm.monitor].ensurePaused(vm.id, until)
    cloned = await cloneDisk(task, vm, AbortSignal.any([until, bound.signal]))
  } finally {
    bound.cancel()
    await letRun(task, vm, guestMustEnd)
  }
  return { ...cloned, pausedMs: Math.round((clock.monotonicMs() - beganMs) * 10) / 10 }
}

/**
 * Lets the guest run again, unless it must end at once. If that fails, the worker of the VM resumes it, since it looks
 * as soon as the capture ends.
 */
async function letRun(
  { host, log }: Task,
  { id, monitor }: VmRecord,
  guestMustEnd: AbortSignal,
): Promise<void> {
  if (guestMustEnd.aborted) return
  try {
    await host.monitors[monitor].ensureRunning(id, guestMustEnd)
  } catch (error) {
    if (!guestMustEnd.aborted) warnOfFault(log, error, 'guest not resumed at once after its capture')
  }
}
