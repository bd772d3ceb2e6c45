import { given } from '../../lib/given.ts'
import { objectInJson } from '../../lib/parsed-values.ts'
import { parseSha256 } from '../ids.ts'
import type { Sha256 } from '../ids.ts'
import type { VmMark, FoundNote } from '../world/world.ts'

/** Raised with every change that an older daemon must not read past. */
const FORMAT = 1

/**
 * The note beside a disk: its owner, the image that it was made from if that is known, and the rebuild that made it.
 */
export type DiskNote = { readonly mark: VmMark; readonly rootfsSha256?: Sha256; readonly rebuild?: number }

export function renderDiskNote({ mark, rootfsSha256, rebuild }: DiskNote): string {
  const value = {
    format: FORMAT,
    store_id: mark.storeId,
    created_at_ms: mark.createdAtMs,
    ...given({ rootfs_sha256: rootfsSha256, rebuild }),
  }
  return `${JSON.stringify(value, undefined, 2)}\n`
}

/** Parses a note. A note that cannot be read names no owner, so its disk has none until a person decides. */
export function parseDiskNote(text: string): FoundNote {
  const { format, store_id, created_at_ms, rootfs_sha256, rebuild } = objectInJson(text)
  const isWhole =
    format === FORMAT &&
    typeof store_id === 'string' &&
    Number.isSafeInteger(created_at_ms) &&
    (rebuild === undefined || Number.isSafeInteger(rebuild))
  if (!isWhole) return { mark: { storeId: undefined, createdAtMs: undefined }, rootfsSha256: undefined }
  const mark = { storeId: store_id, createdAtMs: created_at_ms as number }
  const rootfsSha256 = parseSha256(typeof rootfs_sha256 === 'string' ? rootfs_sha256 : '')
  return { mark, rootfsSha256, ...given({ rebuild: rebuild as number | undefined }) }
}
