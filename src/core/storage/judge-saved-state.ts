import { vcpusOf } from '../vm/desired.ts'
import type { Compute } from '../vm/desired.ts'
import type { VmId } from '../vm/ids.ts'
import { corrupt, unusable } from './saved-metadata.ts'
import type { DiskIdentity, SavedMetadata, UnusableState } from './saved-metadata.ts'
import type { SavedState, SavingMonitor } from './saved-state.ts'

/** What is there now, beside what was there when the guest was saved. */
export type SavedSurroundings = {
  readonly vmId: VmId
  /** Who would restore it. */
  readonly monitor: SavingMonitor
  /** Undefined where the file is gone. */
  readonly memoryLengthBytes: number | undefined
  readonly disk: DiskIdentity | undefined
}

const MIB = 1024 * 1024

/** Whether a saved guest may go on here, and if not, why. Of its memory only the length is judged. */
export function judgeSavedState(saved: SavedMetadata, now: SavedSurroundings): SavedState {
  return (
    judgeMemory(saved, now) ??
    judgeOrigin(saved, now) ??
    judgeMonitor(saved.monitor, now.monitor) ?? {
      kind: 'present',
      savedAtMs: saved.savedAtMs,
      sizeMib: Math.ceil(saved.memory.storedBytes / MIB),
      memoryMib: saved.compute.memoryMib,
      vcpus: vcpusOf(saved.compute),
      form: saved.monitor.form,
    }
  )
}

/**
 * Whether a saved guest fits the machine that would be started for it. Memory and vCPUs change only after a stop, which
 * removes what is saved; so another shape is never restored.
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

/** Memory beside another disk, or beside its own after a write, is a guest whose file system breaks. */
function judgeOrigin(saved: SavedMetadata, { vmId, disk }: SavedSurroundings): UnusableState | undefined {
  if (saved.vmId !== vmId) return foreign(`it is of VM ${saved.vmId}`)
  if (disk === undefined) return foreign('its disk is gone')
  if (disk.inode !== saved.disk.inode) return foreign('the disk is another one')
  if (disk.sizeBytes !== saved.disk.sizeBytes || disk.modifiedNs !== saved.disk.modifiedNs)
    return foreign('the disk was written after the guest was saved')
  return undefined
}

/** Monitors read what older ones of their kind wrote, or refuse it themselves; of a newer one they know nothing. */
function judgeMonitor(saved: SavingMonitor, now: SavingMonitor): UnusableState | undefined {
  if (saved.program !== now.program || saved.accelerator !== now.accelerator)
    return foreign(`it was written by ${inWords(saved)}, and here is ${inWords(now)}`)
  if (isNewer(saved.version, now.version))
    return unusable('saved_state_too_new', `it was written by ${inWords(saved)}, and here is ${now.version}`)
  return undefined
}

const foreign = (because: string): UnusableState => unusable('saved_state_foreign', because)

const inWords = ({ program, version, accelerator }: SavingMonitor): string =>
  `${program} ${version} with ${accelerator}`

/** Of versions like `10.0.13`, compared number by number; a missing one counts as 0. */
function isNewer(version: string, than: string): boolean {
  const [a, b] = [version, than].map((one) => one.match(/\d+/g)?.map(Number) ?? []) as [number[], number[]]
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0)
    if (difference !== 0) return difference > 0
  }
  return false
}
