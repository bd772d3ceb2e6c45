import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import { accepted } from './source-refused.ts'
import type { Pulling } from './pulling.ts'

/**
 * Brings the packets that the source has held, so that they come before any that this host holds. The guest does not wait for a source that does not answer.
 */
export async function takePackets(pulling: Pulling): Promise<void> {
  const { context, signal } = pulling
  try {
    const soon = AbortSignal.any([signal, AbortSignal.timeout(limits.packetsTakeMs)])
    await take(pulling, { after: 0, waitMs: 0 }, soon)
  } catch (error) {
    signal.throwIfAborted()
    context.log.warn({ error: errorChain(error) }, 'packets of the guest not fetched from its source yet')
  }
}

/** Brings the next packets that come to the source. Those up to `after` are the guest's, and the source forgets them. */
export const followPackets = (pulling: Pulling, after: number): Promise<number> =>
  take(pulling, { after, waitMs: limits.packetsWaitMs }, pulling.signal)

async function take(
  pulling: Pulling,
  from: { readonly after: number; readonly waitMs: number },
  signal: AbortSignal,
): Promise<number> {
  const { context, source, move } = pulling
  const packets = accepted('release', await source.heldPackets(move, from, signal))
  if (packets.length > 0) await context.host.traffic.inject(pulling.record().host, packets)
  return packets.at(-1)?.number ?? from.after
}
