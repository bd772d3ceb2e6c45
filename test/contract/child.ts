import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import type { ChildProcess } from 'node:child_process'
import type { Readable } from 'node:stream'

/** Bound on the wait for one line of a child. */
const LINE_MS = 20_000

type Speaking = ChildProcess & { readonly stdout: Readable }

/**
 * Gives the lines that a child writes, one per call. Must be called in the turn that spawned the child. A call throws
 * if no line comes for `boundMs`. It also throws if the child ends without a further line; the error says how it ended.
 */
export function linesOf(child: Speaking, boundMs = LINE_MS): () => Promise<string> {
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ended = endOf(child)
  return async () => {
    const bound = new AbortController()
    try {
      const late = delay(boundMs, 'late' as const, { signal: bound.signal })
      const line = await Promise.race([lines.next(), late])
      if (line === 'late') throw new Error(`no line for ${boundMs} ms from: ${child.spawnargs.join(' ')}`)
      if (line.done === true) throw new Error(`${await ended}: ${child.spawnargs.join(' ')}`)
      return line.value
    } finally {
      bound.abort()
    }
  }
}

/** Returns the first line of a child that writes only one line; see {@link linesOf}. */
export const firstLine = (child: Speaking): Promise<string> => linesOf(child)()

const endOf = (child: ChildProcess): Promise<string> =>
  new Promise((resolve) => {
    child.once('error', (error) => resolve(`it did not start, ${error.message}`))
    child.once('exit', (code, signal) =>
      resolve(`it ended ${signal === null ? `with ${code}` : `by ${signal}`}`),
    )
  })

/** Kills a child unless it has ended. Resolves when it has ended. */
export async function endChild(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}
