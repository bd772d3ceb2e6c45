import type { CloseCode } from './close.ts'
import type { DaemonMessage } from './console-message.ts'
import type { WindowSize } from './window-size.ts'

/** Handlers of what a viewer sends. */
export type ViewerListeners = {
  readonly onInput: (bytes: Uint8Array) => void
  readonly onResize: (size: WindowSize) => void
  /** Called when the viewer asks for its position. */
  readonly onPosition: () => void
  /** Called once when the viewer is gone, whatever ended it. */
  readonly onClosed: () => void
  /** Called when something that was sent has left. */
  readonly onSent?: () => void
}

/** A remote viewer of a terminal. Nothing in it blocks. */
export interface ConsoleViewer {
  readonly isOpen: boolean
  listen(listeners: ViewerListeners): void
  /** Sends terminal bytes, which must not change afterwards. */
  output(bytes: Uint8Array): void
  tell(message: DaemonMessage): void
  close(code: CloseCode, words?: string): void
  /** Makes the sender hold back its input. */
  pauseInput(): void
  resumeInput(): void
}
