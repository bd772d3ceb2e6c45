import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { unlessErrno } from '../ffi/errno-error.ts'
import { MonitorRefusal } from '../monitors/monitor-error.ts'
import { guestThreadOf } from './qemu-answers.ts'
import type { QmpClient } from './qmp.ts'

/** More threads than a monitor of ours has. A monitor that its guest took over may name any process. */
const THREADS_MAX = 512
const RECHECK_MS = 1

/** The states of a thread that waits, and of an idle thread of the kernel (proc_pid_stat(5)). */
const ASLEEP: ReadonlySet<string | undefined> = new Set(['S', 'I'])

/**
 * Waits until every thread of a monitor sleeps at once. The caller ensures that the monitor has no work then, so that
 * they do. QMP names a thread of a guest's processor, and the kernel lists the others of its process.
 */
export async function untilThreadsSleep(client: QmpClient, signal: AbortSignal): Promise<void> {
  const thread = await guestThreadOf(client)
  while (!doThreadsSleep(thread)) {
    await delay(RECHECK_MS)
    signal.throwIfAborted()
  }
}

/**
 * Returns whether every thread of a process sleeps, or has ended. `thread` is one of its threads. A thread that waits
 * for the disk does not sleep. MonitorRefusal if it has more threads than a monitor.
 */
export function doThreadsSleep(thread: number, proc = '/proc'): boolean {
  const folder = `${proc}/${thread}/task`
  const threads = orNone(() => readdirSync(folder)) ?? []
  if (threads.length > THREADS_MAX) throw new MonitorRefusal({ desc: `it has ${threads.length} threads` })
  return threads.every((one) => {
    const stat = orNone(() => readFileSync(`${folder}/${one}/stat`, 'utf8'))
    // The name before the state is in brackets, and may contain any character.
    return stat === undefined || ASLEEP.has(stat.slice(stat.lastIndexOf(')')).at(2))
  })
}

/** Reads what a thread that has just ended does not have any more (proc(5)). */
const orNone = <T>(read: () => T): T | undefined => unlessErrno(read, 'ENOENT', 'ESRCH')
