import type { CloseCode } from './close.ts'
import type { DaemonMessage } from './console-message.ts'
import type { WindowSize } from './window-size.ts'

/** What a viewer sends. */
export type ViewerListeners = {
  readonly onInput: (bytes: Uint8Array) => void
  readonly onResize: (size: WindowSize) => void
  /** It asks for its position. */
  readonly onPosition: () => void
  /** Comes once, when it is gone, whoever ended it. */
  readonly onClosed: () => void
  /** Something that was sent has left. */
  readonly onSent?: () => void
}

/** One who looks at a terminal from afar. Nothing in it blocks. */
export interface ConsoleViewer {
  readonly isOpen: boolean
  listen(listeners: ViewerListeners): void
  /** Terminal bytes, which must not change afterwards. */
  output(bytes: Uint8Array): void
  tell(message: DaemonMessage): void
  close(code: CloseCode, words?: string): void
  /** Holds back what it sends, at the sender. */
  pauseInput(): void
  resumeInput(): void
}
