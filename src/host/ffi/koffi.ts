/** Imports koffi, as the only file that does. Only drivers use it, for foreign functions of libc and libsystemd. */
import koffi from 'koffi'

export { koffi }

const loaded = new Map<string, ReturnType<typeof koffi.load>>()

/** Loads a shared library once. Throws if it is not installed. */
export function library(name: string): ReturnType<typeof koffi.load> {
  let found = loaded.get(name)
  if (found === undefined) {
    found = koffi.load(name)
    loaded.set(name, found)
  }
  return found
}

/** Returns the errno of the last foreign call on this thread. */
export const errno = (): number => koffi.errno()
