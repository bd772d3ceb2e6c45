import { HostFault } from '../../core/errors.ts'
import { limits } from '../../config/limits.ts'
import { pause } from '../../lib/abortable.ts'
import { errorChain } from '../../log/error-chain.ts'
import { accepted, Hindered } from './source-refused.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Pulling } from './pulling.ts'

/** Returns whether the source has held packets: for a guest that was saved there, not for one that boots here. */
export const mayHavePackets = ({ desired, observed }: VmRecord): boolean =>
  desired.network !== undefined && observed.savedState !== undefined

/**
 * Brings the packets that the source has held, so that they come before any that this host holds. The guest does not
 * wait for a source that does not answer.
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

/** Waits for changes of the VM's record. */
export type Changes = {
  /** Begins to listen, before the record is read. */
  readonly listen: () => void
  /** Resolves after the next change since `listen`, or after this time. */
  readonly wait: (ms: number) => Promise<void>
}

/**
 * Brings the packets that still come to the source after the release, for as long as it holds them. Ends when the
 * signal of `pulling` is raised.
 */
export async function followPackets(pulling: Pulling, releasedAtMs: number, changes: Changes): Promise<void> {
  const { context, id, signal } = pulling
  const { clock } = context.host
  // The clock may have been ahead at the release, and may be set meanwhile.
  const untilMs = clock.monotonicMs() + limits.departedFramesMs - Math.max(0, clock.now() - releasedAtMs)
  // Those that came with the release are the source's until the guest has them: this daemon may die.
  for (let last = 0; clock.monotonicMs() < untilMs && !signal.aborted;) {
    changes.listen()
    const isLoading = context.store.vms.get(id)?.wake?.reason === 'arrived'
    const askedMs = clock.monotonicMs()
    const next = isLoading ? last : await nextPackets(pulling, last)
    // A source that has no packets waits for them before it answers. One that does not is not asked all the time.
    const isEarly = clock.monotonicMs() - askedMs < limits.copyProgressMs
    if (next === last && isEarly) await changes.wait(limits.copyProgressMs)
    // Nor is one that always has some; a single packet does not wait.
    await pauseUntil(clock, askedMs + limits.packetsEveryMs, signal)
    last = next
  }
}

/**
 * Brings the next packets that come to the source. Those up to `last` are the guest's, and the source forgets them. A
 * source that does not answer is asked again, because its daemon may start again.
 */
async function nextPackets(pulling: Pulling, last: number): Promise<number> {
  try {
    return await take(pulling, { after: last, waitMs: limits.packetsWaitMs }, pulling.signal)
  } catch (error) {
    if (pulling.signal.aborted || !(error instanceof HostFault || error instanceof Hindered)) throw error
    return last
  }
}

/** Waits until a monotonic time or the signal. */
async function pauseUntil(
  clock: Pick<Clock, 'after' | 'monotonicMs'>,
  atMs: number,
  signal: AbortSignal,
): Promise<void> {
  const leftMs = atMs - clock.monotonicMs()
  // The caller sees the signal itself.
  if (leftMs > 0) await pause(clock, leftMs, signal).catch(() => {})
}

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
