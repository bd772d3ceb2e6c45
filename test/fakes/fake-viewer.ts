import type { CloseCode } from '../../src/core/console/close.ts'
import type { DaemonMessage, ConsoleViewer, ViewerListeners } from '../../src/core/console/console-viewer.ts'

/** A viewer in memory that keeps the messages it gets. */
export class FakeViewer implements ConsoleViewer {
  readonly outputs: Uint8Array[] = []
  readonly received: DaemonMessage[] = []
  closedWith: CloseCode | undefined
  /** The words of that close. */
  words: string | undefined
  /** Whether its incoming messages are held back. */
  isHeld = false
  #listeners: ViewerListeners | undefined

  get isOpen(): boolean {
    return this.closedWith === undefined
  }

  /** All output, as text. */
  get text(): string {
    return Buffer.concat(this.outputs).toString()
  }

  listen(listeners: ViewerListeners): void {
    this.#listeners = listeners
  }

  output(bytes: Uint8Array): void {
    if (this.isOpen) this.outputs.push(bytes)
  }

  send(message: DaemonMessage): void {
    if (this.isOpen) this.received.push(message)
  }

  close(code: CloseCode, words?: string): void {
    if (!this.isOpen) return
    this.closedWith = code
    this.words = words
  }

  pauseInput(): void {
    this.isHeld = true
  }

  resumeInput(): void {
    this.isHeld = false
  }

  type(bytes: Uint8Array): void {
    this.#listeners?.onInput(bytes)
  }

  /** Closes its connection. */
  leave(): void {
    this.#listeners?.onClosed()
  }
}
