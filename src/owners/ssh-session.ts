import type { WindowSize } from '../core/console/window-size.ts'
import type { GuestShell, ShellEnd } from '../ports/guest-shells.ts'

/** How a session ends: as its shell does, or since the VM or the daemon goes. */
export type SessionEnd = ShellEnd | { readonly kind: 'vm_stopped' | 'vm_deleted' | 'daemon_stops' }

export type SessionListeners = {
  readonly onOutput: (bytes: Uint8Array) => void
  /** Comes once, after the last output. */
  readonly onEnd: (end: SessionEnd) => void
}

/** A shell in a guest, for as long as one viewer has it. */
export class SshSession {
  readonly #shell: GuestShell
  readonly #onOver: (end: SessionEnd | undefined) => void
  #listeners: SessionListeners | undefined
  #isOver = false
  #end: SessionEnd | undefined

  /** @param onOver comes once; without an end where the viewer left */
  constructor(shell: GuestShell, onOver: (end: SessionEnd | undefined) => void) {
    this.#shell = shell
    this.#onOver = onOver
  }

  /** Given once; what came before is kept. */
  attach(listeners: SessionListeners): void {
    this.#listeners = listeners
    if (this.#end !== undefined) listeners.onEnd(this.#end)
    else this.#shell.attach({ onOutput: listeners.onOutput, onEnd: (end) => this.#finish(end) })
  }

  write(bytes: Uint8Array): void {
    this.#shell.write(bytes)
  }

  /** Input that the guest has not taken yet, in bytes. */
  get inputWaiting(): number {
    return this.#shell.inputWaiting
  }

  /** Hears that waiting input fell below the limit again. */
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

  /** The viewer has left; can be repeated. */
  close(): void {
    this.#finish(undefined)
  }

  /** Ends it from this side, with the viewer told why. */
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
