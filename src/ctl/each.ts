import { exitStatus } from './exit-status.ts'
import type { Context } from './command.ts'
import type { ExitStatus } from './exit-status.ts'

/** Does the same to each that was named. One that is refused keeps none of the others from it; the worst status counts. */
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
