import { MANAGER } from './bus-names.ts'
import type { BusSignal } from './early-signals.ts'
import type { SystemdBus } from './systemd-bus.ts'

/** The result of a job: `done`, or why it failed (org.freedesktop.systemd1(5), signal JobRemoved). */
export type JobResult = string

/**
 * Runs a job of systemd on a unit, and resolves when the job has ended. `enqueue` calls the method that returns the
 * job. The signals are watched before that call, because a short job ends before its answer is read.
 *
 * Throws what `enqueue` throws. Throws HostFault `systemd_unavailable` if the connection is lost. Throws the signal's
 * reason on abort, and the job then continues.
 */
export async function runJob(
  bus: Pick<SystemdBus, 'onSignal' | 'onLoss'>,
  unit: string,
  signal: AbortSignal,
  enqueue: () => Promise<readonly unknown[]>,
): Promise<JobResult> {
  signal.throwIfAborted()
  const ended = new Map<unknown, JobResult>()
  const { promise: cut, reject } = Promise.withResolvers<never>()
  cut.catch(() => {})
  let wake = (): void => {}

  const onSignal = ({ interface: from, member, body }: BusSignal): void => {
    if (from !== MANAGER || member !== 'JobRemoved') return
    const [, job, unitOfJob, result] = body
    if (unitOfJob !== unit) return
    ended.set(job, String(result))
    wake()
  }
  const onAbort = (): void => reject(signal.reason)
  const stopListening = [bus.onSignal(onSignal), bus.onLoss(reject)]
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    const [job] = await Promise.race([enqueue(), cut])
    const result = new Promise<JobResult>((resolve) => {
      wake = () => {
        const found = ended.get(job)
        if (found !== undefined) resolve(found)
      }
    })
    wake()
    return await Promise.race([result, cut])
  } finally {
    for (const stop of stopListening) stop()
    signal.removeEventListener('abort', onAbort)
  }
}
