import type { Ring } from '../core/console/ring.ts'
import type { WindowSize } from '../core/console/window-size.ts'
import type { ConsoleState } from '../core/plan/world.ts'
import type { VmId } from '../core/vm/ids.ts'

/** Console ptys, whose masters systemd keeps in the daemon's descriptor store as `console-<id>`. */
export interface Consoles {
  inspect(id: VmId): Promise<ConsoleState>
  /** Makes the pty, stores its master and reads it back; returns the slave's path, e.g. `/dev/pts/3`. */
  ensureMaster(id: VmId): Promise<string>
  /** Takes the master out of the store; then reads what is left, ends the session and closes it. */
  removeMaster(id: VmId): Promise<void>
  /** Ids of all stored masters. */
  list(): Promise<readonly VmId[]>
  /** Ids whose inspection would say `stored`; one question, however many there are. */
  stored(): Promise<readonly VmId[]>
  /** The session of a VM whose console is open here. */
  session(id: VmId): ConsoleSession | undefined
  /** Hears of each session that begins, also of those that are adopted. Returns what stops it. */
  onSession(listener: (id: VmId, session: ConsoleSession) => void): () => void
}

/** The output of a console, to be read by others. */
export type ConsoleOutput = Pick<Ring, 'start' | 'end' | 'since'>

/** One VM's console from its start to its stop, whatever becomes of the daemon meanwhile. Nothing in it blocks. */
export interface ConsoleSession {
  /** 16 lower-case hexadecimal digits; others at each start of the VM, the same over restarts of the daemon. */
  readonly id: string
  readonly output: ConsoleOutput
  /** Hears that there are new bytes in `output`, once for many. Returns what stops it. */
  onOutput(listener: () => void): () => void
  /** Hears that the session is over, after its last output. Returns what stops it. */
  onEnd(listener: () => void): () => void
  /** Queues input for the guest, in order, however long that does not read it. */
  write(bytes: Uint8Array): void
  /** Input that the terminal has not taken yet, in bytes. Writers hold back while it is above the limit. */
  readonly inputWaiting: number
  /** Hears that waiting input fell below the limit again. Returns what stops it. */
  onInputRoom(listener: () => void): () => void
  resize(size: WindowSize): void
  /** Counts bytes that were passed on to viewers as work for this console, whose share of the daemon is bounded. */
  spend(bytes: number): void
}
