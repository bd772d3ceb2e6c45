import type { UserId } from '../ids.ts'
import type { VmMark } from '../world/vm-mark.ts'

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
