/*
 * Ends the commands and labs we started when we are interrupted. Commands run in separate process groups, so that a
 * time limit can end their children too. Therefore Ctrl-C on the terminal does not reach them by itself.
 */
import type { ChildProcess } from 'node:child_process'
import { constants } from 'node:os'

const groups = new Set<ChildProcess>()
const attached = new Set<ChildProcess>()
const interactive = new Set<ChildProcess>()
const cleanups = new Set<() => Promise<void>>()
let interrupted = false

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => void interrupt(signal))
}
process.on('exit', () => {
  for (const child of groups) killGroup(child)
})

async function interrupt(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP'): Promise<void> {
  // The terminal has signalled the command that a person works with too, and that command decides how to react.
  if (signal === 'SIGINT' && interactive.size > 0 && !interrupted) return
  const status = 128 + constants.signals[signal]
  // A user who interrupts twice does not want to wait for the cleanup.
  if (interrupted) process.exit(status)
  interrupted = true
  for (const child of groups) killGroup(child)
  for (const child of [...attached, ...interactive]) child.kill('SIGKILL')
  for (const cleanup of [...cleanups].toReversed()) {
    try {
      await cleanup()
    } catch (error) {
      console.error(error)
    }
  }
  process.exit(status)
}

/** Ends a command that leads its own process group, with all its children. */
export function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // It ended between our look and our kill.
  }
}

/** A command in a group of its own, one on our terminal, or one on our terminal that a person works with. */
export type Tracked = 'group' | 'attached' | 'interactive'

/** Tracks a running command until it ends. */
export function track(child: ChildProcess, how: Tracked): void {
  const set = { group: groups, attached, interactive }[how]
  set.add(child)
  for (const event of ['close', 'error']) child.once(event, () => set.delete(child))
}

/** Runs `body` and then `cleanup`, which also runs if a signal ends us in between. */
export async function withCleanup<T>(cleanup: () => Promise<void>, body: () => Promise<T>): Promise<T> {
  cleanups.add(cleanup)
  try {
    return await body()
  } finally {
    cleanups.delete(cleanup)
    await cleanup()
  }
}
