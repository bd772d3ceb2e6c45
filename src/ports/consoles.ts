import type { ConsoleState } from '../core/plan/world.ts'
import type { VmId } from '../core/vm/ids.ts'

/** Console ptys, whose masters systemd keeps in the daemon's descriptor store as `console-<id>`. */
export interface Consoles {
  inspect(id: VmId): Promise<ConsoleState>
  /** Makes the pty, stores its master and reads it back; returns the slave's path, e.g. `/dev/pts/3`. */
  ensureMaster(id: VmId): Promise<string>
  /** Takes the master out of the store and closes it. */
  removeMaster(id: VmId): Promise<void>
  /** Ids of all stored masters. */
  list(): Promise<readonly VmId[]>
  /** Ids whose inspection would say `stored`; one question, however many there are. */
  stored(): Promise<readonly VmId[]>
  /** The newest output kept of a VM's console, at most the history limit. */
  history(id: VmId): Uint8Array
}
