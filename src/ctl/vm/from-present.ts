import { answered } from '../../client/api-client.ts'
import { ApiProblem } from '../../client/api-problem.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Context } from '../command.ts'
import type { ExitStatus } from '../exit-status.ts'

/**
 * Number of tries: a busy host changes its VM all the time. After so many changes in between, something else is wrong.
 */
const ATTEMPTS = 5

/**
 * Makes a request that replaces a whole object from options that give only a part of it. Reads the VM, lets `change`
 * make the request, and repeats both if the VM has changed in between. `etag` is for `If-Match`.
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
