import { vcpusOf } from '../desired.ts'
import { corrupt, unusable } from './saved-metadata.ts'
import { mibUp } from '../../lib/byte-units.ts'
import type { Compute } from '../desired.ts'
import type { VmId } from '../ids.ts'
import type { DiskIdentity, SavedMetadata } from './saved-metadata.ts'
import type { SavedState, SavingMonitor, UnusableState } from '../world/saved-state.ts'
import type { Processor } from '../monitor/processor.ts'

/** The present environment, to compare with that of the save. */
export type SavedSurroundings = {
  readonly vmId: VmId
  /** The program that would restore the guest. */
  readonly monitor: SavingMonitor
  /** Undefined if the file is gone. */
  readonly memoryLengthBytes: number | undefined
  readonly disk: DiskIdentity | undefined
}

/** Judges whether a saved guest may be restored here, and if not, why. Only the length of its memory is judged. */
export function judgeSavedState(saved: SavedMetadata, now: SavedSurroundings): SavedState {
  return (
    judgeMemory(saved, now) ??
    judgeOrigin(saved, now) ??
    judgeMonitor(saved.monitor, now.monitor) ?? {
      kind: 'present',
      savedAtMs: saved.savedAtMs,
      sizeMib: mibUp(saved.memory.storedBytes),
      memoryMib: saved.compute.memoryMib,
      vcpus: vcpusOf(saved.compute),
      form: saved.monitor.form,
    }
  )
}

/**
 * Judges whether a saved guest fits the machine that would be started for it. Memory and vCPUs change only after a
 * stop, which removes the saved state. So a guest of another shape is never restored.
 */
export function judgeShape(saved: SavedState, desired: Compute): SavedState {
  if (saved.kind !== 'present') return saved
  const vcpus = vcpusOf(desired)
  if (saved.memoryMib === desired.memoryMib && saved.vcpus === vcpus) return saved
  const had = shapeInWords(saved.memoryMib, saved.vcpus)
  return foreign(`it was saved with ${had}, and the VM has ${shapeInWords(desired.memoryMib, vcpus)}`)
}

const shapeInWords = (memoryMib: number, vcpus: number): string => `${memoryMib} MiB and ${vcpus} vCPUs`

function judgeMemory(
  { memory }: SavedMetadata,
  { memoryLengthBytes: found }: SavedSurroundings,
): UnusableState | undefined {
  if (found === undefined) return corrupt('its memory is gone')
  if (found === memory.lengthBytes) return undefined
  return corrupt(`its memory has ${found} bytes and was saved with ${memory.lengthBytes}`)
}

/**
 * Checks that the disk is unchanged. Memory restored with another disk, or with its own disk after a write, would
 * corrupt the guest's file system.
 */
function judgeOrigin(saved: SavedMetadata, { vmId, disk }: SavedSurroundings): UnusableState | undefined {
  if (saved.vmId !== vmId) return foreign(`it is of VM ${saved.vmId}`)
  if (disk === undefined) return foreign('its disk is gone')
  if (disk.inode !== saved.disk.inode) return foreign('the disk is another one')
  if (disk.sizeBytes !== saved.disk.sizeBytes || disk.modifiedNs !== saved.disk.modifiedNs)
    return foreign('the disk was written after the guest was saved')
  return undefined
}

function judgeMonitor(saved: SavingMonitor, now: SavingMonitor): UnusableState | undefined {
  const mismatch = monitorMismatch(saved, now)
  return mismatch && unusable(mismatch.code, `it was written by ${mismatch.words}`)
}

/** The monitor of a guest and the one here, in words, with the code of their difference. */
export type MonitorMismatch = { readonly code: UnusableState['code']; readonly words: string }

/**
 * Checks the monitor. A monitor reads what older versions of it wrote, or refuses it itself. What a newer version wrote
 * is unknown to it.
 */
export function monitorMismatch(saved: SavingMonitor, now: SavingMonitor): MonitorMismatch | undefined {
  if (saved.program !== now.program || saved.accelerator !== now.accelerator)
    return { code: 'saved_state_foreign', words: `${inWords(saved)}, and here is ${inWords(now)}` }
  if (saved.format !== undefined || now.format !== undefined) return formatMismatch(saved, now)
  if (isNewer(saved.version, now.version))
    return { code: 'saved_state_too_new', words: `${inWords(saved)}, and here is ${now.version}` }
  return undefined
}

function formatMismatch(saved: SavingMonitor, now: SavingMonitor): MonitorMismatch | undefined {
  const [was = '0', is = '0'] = [saved.format, now.format]
  if (was.split('.')[0] === is.split('.')[0] && !isNewer(was, is)) return undefined
  const words = `${inWords(saved)} in format ${was}, and here is ${now.version}, which reads ${is}`
  return { code: 'saved_state_too_new', words }
}

const foreign = (because: string): UnusableState => unusable('saved_state_foreign', because)

const inWords = ({ program, version, accelerator }: SavingMonitor): string =>
  `${program} ${version} with ${accelerator}`

/** Compares versions like `10.0.13` number by number; a missing number counts as 0. */
function isNewer(version: string, than: string): boolean {
  const [a, b] = [version, than].map((one) => one.match(/\d+/g)?.map(Number) ?? []) as [number[], number[]]
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0)
    if (difference !== 0) return difference > 0
  }
  return false
}

/** A program that runs a guest, or would run it, and the processor that it gives the guest. */
export type GuestPlatform = { readonly monitor: SavingMonitor; readonly processor: Processor }

/** How many missing features a sentence names. */
const NAMED_MAX = 4

/**
 * Returns why this host could not restore the memory of a guest that another host has; undefined if nothing is known
 * against it.
 */
export function whyNotRestorable(
  monitor: SavingMonitor,
  processor: Processor,
  here: GuestPlatform,
): string | undefined {
  const mismatch = monitorMismatch(monitor, here.monitor)
  if (mismatch !== undefined) return `its monitor is ${mismatch.words}`
  if (processor.vendor !== here.processor.vendor)
    return `its processor is of vendor ${processor.vendor}, and here is ${here.processor.vendor}`
  const present = new Set(here.processor.features)
  const missing = processor.features.filter((feature) => !present.has(feature))
  if (missing.length === 0) return undefined
  return `its processor has features that this one lacks: ${listed(missing)}`
}

function listed(features: readonly string[]): string {
  const named = features.slice(0, NAMED_MAX).join(', ')
  return features.length > NAMED_MAX ? `${named} and ${features.length - NAMED_MAX} more` : named
}
