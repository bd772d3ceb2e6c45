/** Cuts a driver off in the middle of its work with files, as the end of its process would. */
import * as fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { freePoolGate, poolGate } from '../../src/host/files/pool-files.ts'

const NAMES = [
  'chmod',
  'chown',
  'lstat',
  'mkdir',
  'open',
  'readdir',
  'readFile',
  'rename',
  'rmdir',
  'stat',
  'truncate',
  'unlink',
] as const
const HANDLE_NAMES = ['chmod', 'chown', 'read', 'stat', 'sync', 'writeFile'] as const

type Call = (...args: unknown[]) => Promise<unknown>
type Calls = Record<string, Call>

/** The work whose calls are counted now, if any. */
let work: { readonly mayGoOn: () => boolean; readonly made: Promise<unknown>[] } | undefined

let beforeRead = (): void => {}

const handle = await fs.promises.open('/dev/null')
patch(Object.getPrototypeOf(handle) as Calls, HANDLE_NAMES)
await handle.close()
patch(fs.promises as unknown as Calls, NAMES)
syncBuiltinESMExports()

function patch(object: Calls, names: readonly string[]): void {
  for (const name of names) {
    const call = object[name]
    if (call === undefined) throw new Error(`there is no ${name}`)
    object[name] = function counted(this: unknown, ...args: unknown[]): Promise<unknown> {
      if (name === 'read') beforeRead()
      if (work === undefined) return call.apply(this, args)
      if (!work.mayGoOn()) return new Promise(() => {})
      const answer = call.apply(this, args)
      work.made.push(answer)
      return answer
    }
  }
}

/**
 * Starts work of which the first `passes` calls run; later ones never answer and do nothing. Returns true if the work
 * came to its end, and false if it was cut off.
 */
export async function cutOffAfter(passes: number, begin: () => Promise<unknown>): Promise<boolean> {
  const cutOff = Promise.withResolvers<false>()
  const made: Promise<unknown>[] = []
  let calls = 0
  const mayGoOn = (): boolean => {
    calls += 1
    if (calls > passes) cutOff.resolve(false)
    return calls <= passes
  }
  work = { mayGoOn, made }
  try {
    const ended = await Promise.race([begin().then(() => true), cutOff.promise])
    // Calls that were made finish in the kernel, even when their caller is gone.
    if (!ended) await Promise.all((await Promise.allSettled(made)).map(closeHandle))
    return ended
  } finally {
    work = undefined
    // A process that has ended holds no thread.
    Object.assign(poolGate, freePoolGate())
  }
}

/** Closes files, as the end of the process does. */
async function closeHandle(settled: PromiseSettledResult<unknown>): Promise<void> {
  if (settled.status === 'rejected') return
  const { value } = settled
  if (typeof value === 'object' && value !== null && 'fd' in value && value.fd !== -1)
    await (value as fs.promises.FileHandle).close()
}

/** Runs `act` once, just before the next read of a file handle. The returned function says whether it ran. */
export function atFirstRead(act: () => void): () => boolean {
  let isDone = false
  beforeRead = () => {
    beforeRead = () => {}
    isDone = true
    act()
  }
  return () => isDone
}
