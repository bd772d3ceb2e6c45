import { limits } from '../../config/limits.ts'
import { afterRounds } from '../../core/migration/rounds.ts'
import { movesWithMemory } from '../../core/vm/manifest.ts'
import { pause } from '../../lib/abortable.ts'
import { mibUp } from '../../lib/byte-units.ts'
import { FrameWrites } from './frame-writes.ts'
import { accepted, acceptedFrames, checkLength, Hindered } from './source-refused.ts'
import type { CopiedRound } from '../../core/migration/rounds.ts'
import type { HandOver, Manifest } from '../../core/vm/manifest.ts'
import type { Round } from '../../ports/disk-rounds.ts'
import type { Pulling } from './pulling.ts'

/**
 * Has the guest handed over, and copies the last round. All of the disk is then here, and not published yet. Throws
 * SourceRefused, Hindered and HostFault.
 */
export async function takeOver(pulling: Pulling, manifest: Manifest): Promise<HandOver> {
  const { source, move, signal } = pulling
  if (movesWithMemory(manifest)) {
    pulling.advance({ kind: 'handing_over' })
    pulling.context.poke(pulling.id, 'the guest is to come')
  }
  const answer = await handedOver(pulling)
  const { lastRound } = answer
  if (lastRound === undefined) throw new Hindered('source_refused', 'the handover names no last round')
  const { round } = pulling.arrival()
  if (round < lastRound) {
    const last = accepted('copy', await source.ensureRound(move, lastRound, signal))
    await pullRound(pulling, lastRound, last)
  }
  return answer
}

/**
 * Asks until the guest is handed over. A source waits before it says that it is not;
 * one that does not is asked less often.
 */
async function handedOver({ context, source, move, signal }: Pulling): Promise<HandOver> {
  const { clock } = context.host
  for (;;) {
    const askedMs = clock.monotonicMs()
    const answer = accepted('hand_over', await source.handOver(move, signal))
    if (answer.stage !== 'handing_over') return answer
    const leftMs = askedMs + limits.handoverLookMs - clock.monotonicMs()
    if (leftMs <= 0) continue
    await pause(clock, leftMs, signal)
  }
}

/**
 * Copies the disk in rounds while the guest lives at the source, until one more would not make the handover shorter.
 * Throws SourceRefused, Hindered and HostFault.
 */
export async function pullRounds(pulling: Pulling, { power }: Manifest): Promise<void> {
  const { source, move, signal } = pulling
  const copied: CopiedRound[] = []
  for (let next = pulling.arrival().round + 1; ; next += 1) {
    const round = accepted('copy', await source.ensureRound(move, next, signal))
    copied.push(await pullRound(pulling, next, round))
    // The disk of a guest that does not run stays as it is.
    const follows = power === 'running' ? afterRounds(copied) : 'hand_over'
    if (follows === 'give_up') {
      const detail = `the guest writes faster than its disk is copied: after ${copied.length} rounds, ${mibUp(round.changedBytes)} MiB are left`
      throw new Hindered('migration_not_converging', detail)
    }
    if (follows === 'hand_over') return
  }
}

async function pullRound(
  pulling: Pulling,
  number: number,
  { sizeBytes, changedBytes }: Round,
): Promise<CopiedRound> {
  const { context, source, move, signal } = pulling
  const { clock, incomingDisks } = context.host
  checkLength('disk', sizeBytes, pulling.record().desired.disk.sizeMib)
  const beganMs = clock.monotonicMs()
  const disk = await incomingDisks.open(move.arrival, { number, sizeBytes })
  const writes = new FrameWrites(disk)
  try {
    // Asked for last: frames that are not read would keep their connection, here and at the source.
    const frames = acceptedFrames('copy', await source.roundFrames(move, { number, sizeBytes }, signal))
    let bytes = 0
    let shownMs = beganMs
    for await (const frame of frames) {
      await writes.add(frame)
      if (frame.kind === 'data') bytes += frame.length
      if (clock.monotonicMs() - shownMs < limits.copyProgressMs) continue
      shownMs = clock.monotonicMs()
      pulling.show({ round: number, copiedBytes: bytes, totalBytes: changedBytes })
    }
    await writes.end()
    await disk.flush()
  } finally {
    await writes.settled()
    await disk.close()
  }
  pulling.advance({ kind: 'round_pulled', round: number })
  // The source keeps no more than the last two clones, so this host must never ask for this round again after the next.
  await context.store.flushed()
  const ms = clock.monotonicMs() - beganMs
  context.log.info({ round: number, bytes: changedBytes, ms: Math.round(ms) }, 'round copied')
  return { bytes: changedBytes, ms }
}
