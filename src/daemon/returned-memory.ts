import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { limits } from '../config/limits.ts'
import { returnProgramPages, trimMemory } from '../host/ffi/this-process.ts'

/** V8's collector. Only the flavor `last-resort` also gives back pages that have become free (V8: gc-extension.h). */
type Collect = (options: { readonly type: 'major'; readonly flavor: 'last-resort' }) => void

/**
 * Returns memory to the host: after the start what only the start needed, and from time to time what was freed since.
 */
export function returnMemoryUntil(signal: AbortSignal): void {
  const first = setTimeout(returnStartMemory, limits.startMemoryReturnMs).unref()
  const later = setInterval(trimMemory, limits.freedMemoryReturnMs).unref()
  const stop = (): void => {
    clearTimeout(first)
    clearInterval(later)
  }
  signal.addEventListener('abort', stop, { once: true })
}

/**
 * Returns memory that only the start needed to the host: garbage, what libraries have freed, and pages of the program's
 * file. V8 collects when a program allocates, which a daemon at rest does not do for a long time. It takes some tens of
 * milliseconds, and some hundreds with a thousand VMs, once. Node gives out the collector only under a flag of V8,
 * which contexts see that are made while it is set.
 */
export function returnStartMemory(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as Collect
  setFlagsFromString('--no-expose-gc')
  collect({ type: 'major', flavor: 'last-resort' })
  trimMemory()
  returnProgramPages()
}
