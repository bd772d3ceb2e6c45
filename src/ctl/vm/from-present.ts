import { answered } from '../../client/api-client.ts'
import { ApiProblem } from '../../client/api-problem.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Context } from '../command.ts'
import type { ExitStatus } from '../exit-status.ts'

/** A VM whose host is at work changes all the time; after so many changes under our hands something else is wrong. */
const ATTEMPTS = 5

/**
 * For a request that is a whole object, of which only a part was given: reads the VM, lets `change` make the request from
 * it, and does so again where the VM has changed in between. `etag` belongs into `If-Match`.
 */
export async function fromPresent(
  context: Context,
  id: string,
  change: (vm: Vm, etag: string) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  for (let attempt = 1; ; attempt += 1) {
    const call = context.client().GET('/v1/vms/{id}', { params: { path: { id } } })
    const { data: vm, etag } = await answered(call)
    try {
      return await change(vm, etag)
    } catch (error) {
      const stale = error instanceof ApiProblem && error.code === 'precondition_failed'
      if (!stale || attempt === ATTEMPTS) throw error
    }
  }
}
