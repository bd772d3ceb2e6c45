import { errorChain } from './error-chain.ts'
import { scrub } from './scrub.ts'

/** The frames of a stack that are shown; the first ones tell where the bug is. */
const FRAMES_MAX = 12

/** An error as a log line shows it: the cause chain, the code where it has one, and a stack only where it is a bug. */
export function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: scrub(errorChain(error)) }
  const code: unknown = Reflect.get(error, 'code')
  return {
    name: error.name,
    message: scrub(errorChain(error)),
    ...(typeof code === 'string' ? { code } : { stack: stackOf(error) }),
  }
}

/** An expected failure carries a code (a HostFault, an errno); what has none is a bug, and its frames are wanted. */
function stackOf(error: Error): readonly string[] {
  return (error.stack ?? '')
    .split('\n')
    .filter((line) => line.startsWith('    at '))
    .slice(0, FRAMES_MAX)
    .map((line) => line.trim())
}
