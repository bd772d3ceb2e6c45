import type { VmId } from '../../core/ids.ts'
import type { Consoles } from '../../ports/consoles.ts'
import type { Units } from '../../ports/units.ts'

/** Counts running VMs whose consoles survive the end of the daemon, and those whose consoles do not. */
export type ConsoleCensus = {
  readonly runningUnits: number
  /** Running VMs whose console is `stored`, and those whose console is anything else. */
  readonly protected: number
  readonly unprotected: readonly VmId[]
}

/** Takes the census. Throws the HostFault of what could not be inspected. */
export async function takeConsoleCensus({
  units,
  consoles,
}: {
  readonly units: Pick<Units, 'active'>
  readonly consoles: Pick<Consoles, 'stored'>
}): Promise<ConsoleCensus> {
  // The order matters: a console is stored before its unit starts, and removed after the unit has stopped.
  const before = await units.active()
  const stored = new Set(await consoles.stored())
  const isStored = (id: VmId): boolean => stored.has(id)
  const after = before.every(isStored) ? before : await units.active()
  const still = new Set(after)
  const running = before.filter((id) => still.has(id))
  const unprotected = running.filter((id) => !isStored(id)).toSorted()
  return { runningUnits: running.length, protected: running.length - unprotected.length, unprotected }
}
