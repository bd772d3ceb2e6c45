import type { Rejection } from '../../core/errors.ts'
import type { Desired } from '../../core/desired.ts'

type Sleeps = Pick<Desired, 'compute'> & { readonly network?: object }

/**
 * Returns why an idle timeout cannot work: without network no traffic is counted, and none could wake the VM. `pointer`
 * is its place in the request.
 */
export function refuseSleep({ compute, network }: Sleeps, pointer: string): Rejection | undefined {
  const seconds = compute.sleepAfterIdleSeconds
  if (seconds === 0 || network !== undefined) return undefined
  return {
    code: 'sleep_needs_network',
    detail: `sleep_after_idle_seconds is ${seconds}, and the VM has no network that could wake it: ask for 0, or for a network`,
    errors: [{ pointer, code: 'not_allowed', detail: 'must be 0 without network' }],
  }
}
