import type { WindowSize } from '../../core/console/console-viewer.ts'
import type { NodeName } from '../../core/migration/offer.ts'
import type { GuestShell, ShellEnd } from '../../ports/guest-shells.ts'

/** How a session ends: as its shell does, or because the VM ends or leaves, or the daemon ends. */
export type SessionEnd =
  | ShellEnd
  | { readonly kind: 'vm_stopped' | 'vm_deleted' | 'daemon_stops' }
  | { readonly kind: 'vm_moved'; readonly node: NodeName }

export type SessionListeners = {
  readonly onOutput: (bytes: Uint8Array) => void
  /** Called once, after the last output. */
  readonly onEnd: (end: SessionEnd) => void
}

/** A shell in a guest, for one viewer. */
export class SshSession {
  readonly #shell: GuestShell
  readonly #onOver: (end: SessionEnd | undefined) => void
  #listeners: SessionListeners | undefined
  #isOver = false
  #end: SessionEnd | undefined

  /** @param onOver called once; without an end if the viewer left */
  constructor(shell: GuestShell, onOver: (end: SessionEnd | undefined) => void) {
    this.#shell = shell
    this.#onOver = onOver
  }

  /** Attaches the listeners, once; output from before is kept for them. */
  attach(listeners: SessionListeners): void {
    this.#listeners = listeners
    if (this.#end !== undefined) listeners.onEnd(this.#end)
    else this.#shell.attach({ onOutput: listeners.onOutput, onEnd: (end) => this.#finish(end) })
  }

  write(bytes: Uint8Array): void {
    this.#shell.write(bytes)
  }

  /** Returns the input that the guest has not accepted yet, in bytes. */
  get inputWaiting(): number {
    return this.#shell.inputWaiting
  }

  /** Calls the listener when waiting input is below the limit again. */
  onInputRoom(listener: () => void): void {
    this.#shell.onInputRoom(listener)
  }

  resize(size: WindowSize): void {
    this.#shell.resize(size)
  }

  /** Holds the guest's output back until `resume`. */
  pause(): void {
    this.#shell.pause()
  }

  resume(): void {
    this.#shell.resume()
  }

  /** Ends the session because the viewer has left; safe to repeat. */
  close(): void {
    this.#finish(undefined)
  }

  /** Ends the session from this side, and gives the viewer the reason. */
  end(end: SessionEnd): void {
    this.#finish(end)
  }

  #finish(end: SessionEnd | undefined): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#end = end
    this.#shell.close()
    this.#onOver(end)
    if (end !== undefined) this.#listeners?.onEnd(end)
  }
}
