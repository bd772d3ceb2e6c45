import type { Ring } from '../core/console/ring.ts'
import type { WindowSize } from '../core/console/window-size.ts'
import type { ConsoleState } from '../core/plan/world.ts'
import type { VmId } from '../core/vm/ids.ts'

/**
 * Consoles: a session for each VM from its start to its stop, and a pty for it while the VM may run, whose master systemd
 * keeps in the daemon's descriptor store as `console-<id>`.
 */
export interface Consoles {
  inspect(id: VmId): Promise<ConsoleState>
  /**
   * Makes the pty, stores its master and reads it back; returns the slave's path, e.g. `/dev/pts/3`. Goes on with a session
   * that has no terminal; else it begins one. Throws `no_console_place` when the store is full.
   */
  ensureMaster(id: VmId): Promise<string>
  /** Takes the master out of the store, reads what is left and closes it. The session goes on without a terminal. */
  removeMaster(id: VmId): Promise<void>
  /** The same, and ends the session. Its output stays until the next one begins. */
  endSession(id: VmId): Promise<void>
  /** The same, and removes the output: nothing of the console is left. */
  remove(id: VmId): Promise<void>
  /** Ids of all VMs of which there is a stored master, a session, or output of the last one. */
  list(): Promise<readonly VmId[]>
  /** Ids whose inspection would say `stored`; one question, however many there are. */
  stored(): Promise<readonly VmId[]>
  /** How many masters systemd may keep, and how many more it can take now. */
  places(): Promise<{ readonly total: number; readonly free: number }>
  /** The session of a VM, until it ends. */
  session(id: VmId): ConsoleSession | undefined
  /** The newest session of a VM, also when it is over. */
  lastSession(id: VmId): SessionOutput | undefined
  /** Hears of each session that begins, also of those that are adopted. Returns what stops it. */
  onSession(listener: (id: VmId, session: ConsoleSession) => void): () => void
  /** Hears that a VM which was refused a place in the store may get one now. Returns what stops it. */
  onPlace(listener: (id: VmId) => void): () => void
}

/** The output of a console, to be read by others. */
export type ConsoleOutput = Pick<Ring, 'start' | 'end' | 'since'>

/** What a session said, and which one it was. */
export type SessionOutput = {
  /** 16 lower-case hexadecimal digits; others at each start of the VM, the same over sleeps and restarts of the daemon. */
  readonly id: string
  readonly output: ConsoleOutput
}

/**
 * One VM's console from its start to its stop, over its sleeps, whatever becomes of the daemon meanwhile. Nothing in it
 * blocks.
 */
export interface ConsoleSession extends SessionOutput {
  /** Whether it has a terminal now. Without one its output stands still, and input waits. */
  readonly isAttached: boolean
  /** Hears that there are new bytes in `output`, once for many. Returns what stops it. */
  onOutput(listener: () => void): () => void
  /** Hears that the session is over, after its last output. Returns what stops it. */
  onEnd(listener: () => void): () => void
  /** Queues input for the guest, in order, however long that does not read it. */
  write(bytes: Uint8Array): void
  /** Input that no terminal has taken yet, in bytes. Writers hold back while it is above the limit. */
  readonly inputWaiting: number
  /** Hears that waiting input fell below the limit again. Returns what stops it. */
  onInputRoom(listener: () => void): () => void
  resize(size: WindowSize): void
  /** Counts bytes that were passed on to viewers as work for this console, whose share of the daemon is bounded. */
  spend(bytes: number): void
}
