import { createHash } from 'node:crypto'
import { savedStateMib } from '../../core/capacity/ledger.ts'
import { imagesOf } from '../../core/desired.ts'
import { seedOf } from '../../core/disks/seed.ts'
import { given } from '../../lib/given.ts'
import { limits } from '../../config/limits.ts'
import { FrameWrites } from './frame-writes.ts'
import { accepted, acceptedFrames, checkLength } from './source-refused.ts'
import type { HandOver, Manifest } from '../../core/vm/manifest.ts'
import type { MovedConsole } from '../../ports/consoles.ts'
import type { MovedMemory } from '../../core/world/saved-state.ts'
import type { Pulling } from './pulling.ts'

const BOOT_IMAGE = { bytesMax: limits.bootImageBytesMax, excess: 'image_too_large' } as const

/** Takes over the images from which the VM starts, while its guest still lives at the source. */
export async function pullImages(pulling: Pulling): Promise<void> {
  const { context, id, source, move, signal } = pulling
  const { storage } = context.host
  const needed = imagesOf(pulling.record().desired.image).filter(({ role }) => role !== 'rootfs')
  const { missingImages } = await storage.inspect(id, needed)
  for (const { role, sha256 } of needed) {
    if (!missingImages.includes(role)) continue
    const body = accepted('copy', await source.image(move.migrationId, sha256, signal))
    await storage.ensureImageFrom(sha256, body, signal, BOOT_IMAGE)
  }
}

/** A guest that is handed over, as its source describes it. */
export type HandedOver = {
  /** Says how the guest lived before its handover. */
  readonly manifest: Manifest
  readonly memory: HandOver['memory']
  readonly console: MovedConsole | undefined
}

/**
 * Brings the guest that the source has saved: makes its disk the VM's, and its memory a saved state of that disk. Safe
 * to repeat, and called between two passes of the VM. Returns whether the guest is to run.
 */
export async function pullGuest(
  pulling: Pulling,
  { manifest: { power, vm }, memory, console }: HandedOver,
): Promise<{ readonly wakes: boolean }> {
  const { context, id, move, signal } = pulling
  const { host, store } = context
  const record = pulling.record()
  const { userId } = record.host
  const mark = { storeId: host.storeId, createdAtMs: record.createdAtMs }
  const { rootfsSha256, rebuild } = record.desired.image
  const owner = { id, userId, mark, rootfsSha256, ...given({ rebuild }) }
  await host.incomingDisks.publish(move.arrival, owner, signal)
  if (console !== undefined) await host.consoles.adoptHistory(id, console)
  if (memory === undefined) {
    // The guest has ended, and its session with it.
    await host.consoles.endSession(id)
    if (vm.ended === true) {
      const { observed, powerGeneration } = pulling.record()
      const ended = { ...observed, endedAtPower: powerGeneration }
      store.vms.recordProgress(id, { observed: ended, nowMs: host.clock.now() })
    }
    return { wakes: false }
  }
  // The guest has read this seed, so it stays as it was.
  const options = { daemonSshKey: vm.daemonSshKey, sha256 }
  const seed = host.storage.ensureSeed(id, userId, seedOf(record, store.vms.inputs(id), options))
  // The guest is down meanwhile. Neither is left running when the other fails.
  const made = await Promise.allSettled([seed, pullMemory(pulling, memory)])
  const failed = made.find((one) => one.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return { wakes: power === 'running' || power === 'paused' }
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

async function pullMemory(pulling: Pulling, { lengthBytes, terms }: MovedMemory): Promise<void> {
  const { context, id, source, move, signal } = pulling
  const { savedStates, monitors } = context.host
  const { monitor, desired } = pulling.record()
  const { memoryMib } = desired.compute
  // The index of the pages grows with the memory: a bit for each 4 KiB, and so less than a thousandth of it.
  checkLength('memory', lengthBytes, savedStateMib(memoryMib) + Math.ceil(memoryMib / 1000))
  const found = await savedStates.inspect(id, await monitors[monitor].installed())
  if (found.kind === 'present' && found.savedAtMs === terms.savedAtMs) return
  await savedStates.remove(id)
  const { userId } = pulling.record().host
  const file = await savedStates.openIncoming(id, userId, lengthBytes)
  const writes = new FrameWrites(file)
  try {
    // Asked for last, as those of the disk.
    const frames = acceptedFrames('hand_over', await source.memoryFrames(move, lengthBytes, signal))
    for await (const frame of frames) await writes.add(frame)
    await writes.end()
    await file.flush()
  } finally {
    await writes.settled()
    await file.close()
  }
  await savedStates.publish(id, terms, signal)
}
