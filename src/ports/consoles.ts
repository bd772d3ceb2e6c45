import type { Ring } from '../core/console/ring.ts'
import type { WindowSize } from '../core/console/console-viewer.ts'
import type { ConsoleState } from '../core/world/world.ts'
import type { VmId } from '../core/ids.ts'

/**
 * Consoles of VMs. Each VM has a session from its start to its stop. While the VM may run, the session has a pty, and
 * systemd keeps its master in the daemon's descriptor store as `console-<id>`.
 */
export interface Consoles {
  inspect(id: VmId): Promise<ConsoleState>
  /**
   * Makes the pty, stores its master and reads it back; returns the slave's path, e.g. `/dev/pts/3`. Continues a
   * session that has no terminal, or begins one. Throws `no_console_place` when the store is full.
   */
  ensureMaster(id: VmId): Promise<string>
  /** Removes the master from the store, reads what is left and closes it. The session continues without a terminal. */
  removeMaster(id: VmId): Promise<void>
  /** Does the same, and ends the session. Its output stays until the next one begins. */
  endSession(id: VmId): Promise<void>
  /** Does the same, and removes the output: nothing of the console is left. */
  remove(id: VmId): Promise<void>
  /**
   * Lets input through to the terminal of a session that continues, after a sleep or in the next life of the daemon.
   * Until then it waits: a monitor takes input before it has loaded the saved guest, and then drops it.
   */
  passInput(id: VmId): void
  /** Ids of all VMs with a stored master, a session, or output of the last one. */
  list(): Promise<readonly VmId[]>
  /** Ids whose inspection would return `stored`; one request, however many there are. */
  stored(): Promise<readonly VmId[]>
  /** The number of masters that systemd may keep, and the number that it can still take. */
  places(): Promise<{ readonly total: number; readonly free: number }>
  /** The session of a VM, until it ends. */
  session(id: VmId): ConsoleSession | undefined
  /** The newest session of a VM, even if it has ended. */
  lastSession(id: VmId): SessionOutput | undefined
  /**
   * Returns the newest session of a VM with its kept output, for another host. It is whole when the session has no
   * terminal.
   */
  history(id: VmId): MovedConsole | undefined
  /**
   * Continues a session of another host here, without a terminal; the next `ensureMaster` continues it. It takes the
   * place of a session that is over. Changes nothing if the VM has a session that is not over, or this one already. A
   * session that was over there continues here: if its guest does not come along, end it. Throws `console_unprotected`.
   */
  adoptHistory(id: VmId, moved: MovedConsole): Promise<void>
  /** Calls the listener for each session that begins, also for adopted ones. Returns the function that ends this. */
  onSession(listener: (id: VmId, session: ConsoleSession) => void): () => void
  /**
   * Calls the listener when a VM that was refused a place in the store may get one now. Returns the function that ends
   * this.
   */
  onPlace(listener: (id: VmId) => void): () => void
}

/** A session that moves to another host, where cursors of its viewers stay valid. */
export type MovedConsole = {
  /** The id of the session. */
  readonly session: string
  /** Offset of the end of the output in the session. */
  readonly end: number
  readonly window: WindowSize
  /** The newest output, up to `end`. */
  readonly output: Uint8Array
}

/** The output of a console, for readers. */
export type ConsoleOutput = Pick<Ring, 'start' | 'end' | 'since'>

/** The output of a session, with its id. */
export type SessionOutput = {
  /**
   * 16 lower-case hexadecimal digits; new at each start of the VM, and kept over sleeps,
   * restarts of the daemon and moves.
   */
  readonly id: string
  readonly output: ConsoleOutput
}

/**
 * One VM's console from its start to its stop. It continues over sleeps of the VM and restarts of the daemon. Nothing
 * in it blocks.
 */
export interface ConsoleSession extends SessionOutput {
  /** Whether it has a terminal now. Without one, its output does not advance, and input waits. */
  readonly isAttached: boolean
  /** Calls the listener when there are new bytes in `output`, once for many. Returns the function that ends this. */
  onOutput(listener: () => void): () => void
  /** Calls the listener when the session has ended, after its last output. Returns the function that ends this. */
  onEnd(listener: () => void): () => void
  /** Queues input for the guest, in order, until the guest reads it. */
  write(bytes: Uint8Array): void
  /** Input that no terminal has accepted yet, in bytes. Writers wait while it is above the limit. */
  readonly inputWaiting: number
  /** Calls the listener when waiting input is below the limit again. Returns the function that ends this. */
  onInputRoom(listener: () => void): () => void
  resize(size: WindowSize): void
  /** Counts bytes that were passed on to viewers as work for this console; its share of the daemon is bounded. */
  spend(bytes: number): void
}
