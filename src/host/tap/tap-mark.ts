import { parseVmId } from '../../core/vm/ids.ts'
import type { VmId } from '../../core/vm/ids.ts'

export type TapMark = { readonly storeId: string; readonly id: VmId }

/** The interface alias that says whose a tap is: `vmhostd:<store>:<vm>`. `ip link` shows it. */
export const formatTapMark = ({ storeId, id }: TapMark): string => `vmhostd:${storeId}:${id}`

/** Undefined for an alias that is not a mark. */
export function parseTapMark(alias: string): TapMark | undefined {
  const match = /^vmhostd:([^:\s]+):([^:]+)$/.exec(alias)
  const id = parseVmId(match?.[2] ?? '')
  return match?.[1] === undefined || id === undefined ? undefined : { storeId: match[1], id }
}
