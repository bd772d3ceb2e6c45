import { vcpusOf } from '../../core/desired.ts'
import type { Rejection } from '../../core/errors.ts'
import type { Compute } from '../../core/desired.ts'
import type { CommandContext } from '../context.ts'

/**
 * Returns why no guest of this host can have this many vCPUs. `pointer` is the place of the CPU share in the request.
 */
export function refuseVcpus(
  { capacity }: CommandContext,
  compute: Compute,
  pointer: string,
): Rejection | undefined {
  const [vcpus, vcpusMax] = [vcpusOf(compute), capacity.vcpusMax()]
  if (vcpus <= vcpusMax) return undefined
  const millicoresMax = vcpusMax * 1000
  return {
    code: 'too_many_vcpus',
    detail: `${compute.cpuMillicores} millicores are ${vcpus} vCPUs, and the monitor of this host gives a guest at most ${vcpusMax}: ask for at most ${millicoresMax} millicores`,
    errors: [{ pointer, code: 'out_of_range', detail: `must be at most ${millicoresMax}` }],
  }
}
