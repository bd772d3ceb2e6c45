import { parseVmId } from '../../core/ids.ts'
import type { VmId } from '../../core/ids.ts'

export type TapMark = { readonly storeId: string; readonly id: VmId }

/** Formats the interface alias that names the owner of a tap: `vmhostd:<store>:<vm>`. `ip link` shows it. */
export const formatTapMark = ({ storeId, id }: TapMark): string => `vmhostd:${storeId}:${id}`

/** Parses a mark; undefined for an alias that is not one. */
export function parseTapMark(alias: string): TapMark | undefined {
  const match = /^vmhostd:([^:\s]+):([^:]+)$/.exec(alias)
  const id = parseVmId(match?.[2] ?? '')
  return match?.[1] === undefined || id === undefined ? undefined : { storeId: match[1], id }
}
