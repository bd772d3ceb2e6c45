/**
 * Imports koffi, as the only file that does. Only drivers use it, for functions of libc, libsystemd and Node itself.
 */
import koffi from 'koffi'

export { koffi }

type Library = ReturnType<typeof koffi.load>
export type ForeignFunction = ReturnType<Library['func']>

const loaded = new Map<string, Library>()

/** Loads a shared library once. Throws if it is not installed. */
export function library(name: string): Library {
  let found = loaded.get(name)
  if (found === undefined) {
    found = koffi.load(name)
    loaded.set(name, found)
  }
  return found
}

/** Returns what the running program exports. */
export const thisProgram = (): Library => koffi.load(null)

/** Returns the errno of the last foreign call on this thread. */
export const errno = (): number => koffi.errno()

/** Calls a system call in a thread. Returns its result, or a negative errno if it fails. */
export const callInThread = (call: ForeignFunction, ...args: readonly unknown[]): Promise<number> =>
  new Promise((resolve, reject) => {
    call.async(...args, (error: Error | null, result: number | bigint) => {
      if (error === null) resolve(result < 0 ? -errno() : Number(result))
      else reject(error)
    })
  })
