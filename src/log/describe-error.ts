import { errorChain } from './error-chain.ts'
import { scrub } from './scrub.ts'

/** Stack frames that are shown; the first ones show where the bug is. */
const FRAMES_MAX = 12

/** Returns an error as a log line shows it: the cause chain, the code if it has one, and a stack only for a bug. */
export function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: scrub(errorChain(error)) }
  const code: unknown = Reflect.get(error, 'code')
  return {
    name: error.name,
    message: scrub(errorChain(error)),
    ...(typeof code === 'string' ? { code } : { stack: stackOf(error) }),
  }
}

/** Returns the frames of a bug. An expected failure carries a code (a HostFault, an errno) and needs no frames. */
function stackOf(error: Error): readonly string[] {
  return (error.stack ?? '')
    .split('\n')
    .filter((line) => line.startsWith('    at '))
    .slice(0, FRAMES_MAX)
    .map((line) => line.trim())
}
