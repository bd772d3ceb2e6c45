import { parseVmId } from '../ids.ts'
import type { VmId } from '../ids.ts'

/** Parent of all VM units in the control group tree, so that an operator can bound them together (systemd.slice(5)). */
export const UNIT_SLICE = 'vmhost.slice'

/** Matches the name of every VM unit, and may match others' (systemd's patterns are fnmatch(3)). */
export const UNIT_PATTERN = 'vmhost-*.service'

export const unitName = (id: VmId): string => `vmhost-${id}.service`

/** Returns the VM of a unit; undefined if the name is not one that {@link unitName} gives. */
export const parseUnitName = (name: string): VmId | undefined => between(name, 'vmhost-', '.service')

/** Returns the name of a console master in the descriptor store. */
export const consoleName = (id: VmId): string => `console-${id}`

/** Returns the VM of a stored descriptor; undefined if the name is not one that {@link consoleName} gives. */
export const parseConsoleName = (name: string): VmId | undefined => between(name, 'console-', '')

function between(name: string, prefix: string, suffix: string): VmId | undefined {
  if (!name.startsWith(prefix) || !name.endsWith(suffix)) return undefined
  return parseVmId(name.slice(prefix.length, name.length - suffix.length))
}
