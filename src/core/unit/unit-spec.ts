import type { UserId, VmId } from '../ids.ts'
import type { VmMark } from '../world/world.ts'
import { parseVmId } from '../ids.ts'

/** A unit in terms of the host, without D-Bus: the driver translates it to properties (systemd.exec(5)). */
export type UnitSpec = {
  readonly description: string
  /** Program and arguments; the program is an absolute path. */
  readonly command: readonly [string, ...string[]]
  readonly userId: UserId
  readonly supplementaryGroups: readonly string[]
  /** The slave of the console pty: standard input, output and controlling terminal. */
  readonly ttyPath: string
  /** Relative to /run; made for and owned by the unit's user, and removed with the unit. */
  readonly runtimeDirectory: string
  /** The files that the runtime directory has when the program starts. The unit's user can read them. */
  readonly runtimeFiles: readonly RuntimeFile[]
  readonly cpuQuotaPercent: number
  readonly memoryMaxBytes: number
  readonly tasksMax: number
  readonly openFilesMax: number
  readonly devices: readonly string[]
  readonly readOnlyPaths: readonly string[]
  readonly readWritePaths: readonly string[]
  /** Names the VM that owns the unit, so that no other VM takes it over. */
  readonly mark: VmMark
}

export type RuntimeFile = { readonly name: string; readonly content: string }

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
