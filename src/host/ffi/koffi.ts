/** Imports koffi, as the only file that does. Only drivers use it, for foreign functions of libc and libsystemd. */
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

/** Returns the errno of the last foreign call on this thread. */
export const errno = (): number => koffi.errno()
