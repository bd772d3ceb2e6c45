import { exitStatus } from './exit-status.ts'
import type { Context } from './command.ts'
import type { ExitStatus } from './exit-status.ts'

/** Does the same to each named object. A refusal of one does not stop the others; returns the worst status. */
export async function eachNamed(
  context: Context,
  act: (id: string) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  let worst: ExitStatus = exitStatus.done
  for (const id of context.given.operands) {
    const status = await act(id).catch((error: unknown) => context.fail(error, id))
    if (status === exitStatus.unreachable) return status
    if (status > worst) worst = status
  }
  return worst
}
