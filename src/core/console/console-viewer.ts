import { limits } from '../../config/limits.ts'
import { Places } from '../../lib/places.ts'
import { isSeenAway } from '../vm/at-rest.ts'
import type { CloseCode } from './close.ts'
import type { VmId } from '../ids.ts'
import type { VmRecord } from '../vm/record.ts'

/** Messages of the daemon to a viewer, besides the bytes of the terminal. A viewer may be older than the daemon. */
export type DaemonMessage<ErrorCode extends string = MessageErrorCode> =
  /**
   * Begins each session; sent again within one if output came faster than it could be passed on. A shell over SSH has
   * no place.
   */
  | { readonly kind: 'attached'; readonly place: Attachment | undefined }
  | { readonly kind: 'position'; readonly session: string; readonly cursor: number }
  /** Comes after the history of `attached` if the state is known, and whenever it changes. */
  | { readonly kind: 'guest'; readonly state: ConsoleGuest }
  /** There is no session now; `attached` comes with the next. */
  | { readonly kind: 'waiting' }
  | { readonly kind: 'error'; readonly code: ErrorCode; readonly detail: string }

/** The place at which a viewer begins in a session; cursors are byte offsets in its output. */
export type Attachment = {
  readonly session: string
  /** Cursor of the next binary byte. */
  readonly cursor: number
  /** Number of bytes of history that follow. */
  readonly replayBytes: number
  /** Number of lost bytes between the viewer's last position and `cursor`. */
  readonly lostBytes: number
  /** The session has ended. What is typed now does not reach it. */
  readonly over?: true
}

/** The state of the guest of a session. While it does not run, it writes nothing, and what is typed waits for it. */
export type ConsoleGuest = 'running' | 'sleeping' | 'paused'

/** The parts of a record that say whether its guest reads its console. */
export type ConsoleRecord = {
  readonly observed: Pick<VmRecord['observed'], 'state' | 'savedState'>
  readonly desired: Pick<VmRecord['desired'], 'power'>
  readonly stops: Pick<VmRecord['stops'], 'grace'>
}

/**
 * Returns the state of the guest for its viewers; undefined if the record does not say it. A guest that is waking, or
 * whose wake has failed, does not read yet.
 */
export function consoleGuest({ observed, desired, stops }: ConsoleRecord): ConsoleGuest | undefined {
  const { state } = observed
  if (state === 'running' || state === 'paused') return state
  if (isSeenAway(observed)) return 'sleeping'
  // A guest that is asked to end must run for that, also if it was paused.
  if (state === 'stopping' && stops.grace?.askedAtMs !== undefined) return 'running'
  return state === 'starting' && desired.power === 'paused' ? 'paused' : undefined
}

/** The reason why a text message of a viewer was ignored. */
export type MessageErrorCode = 'not_json' | 'unknown_message' | 'invalid_message'

/** Handlers of what a viewer sends. */
export type ViewerListeners = {
  readonly onInput: (bytes: Uint8Array) => void
  readonly onResize: (size: WindowSize) => void
  /** Called when the viewer asks for its position. */
  readonly onPosition: () => void
  /** Called when the viewer wants no output for a while, and when it takes output again. */
  readonly onOutputPaused: (isPaused: boolean) => void
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
  send(message: DaemonMessage): void
  close(code: CloseCode, words?: string): void
  /** Makes the sender hold back its input. */
  pauseInput(): void
  resumeInput(): void
}

/** The size of a terminal, in characters (struct winsize, ioctl_tty(2)). */
export type WindowSize = { readonly cols: number; readonly rows: number }

/** The usual size of terminals if none is given. */
export const DEFAULT_WINDOW: WindowSize = { cols: 80, rows: 24 }

/** The client of a viewer: the controller, or one that may only open consoles. */
export type ViewerOf = 'controller' | 'other'

/**
 * Places for viewers in one mode. Some of each VM are only for the controller, so that no other client keeps it out.
 */
export class ViewerPlaces {
  readonly #all = new Places<VmId>(limits.consoleViewersMax)
  readonly #others = new Places<VmId>(limits.consoleViewersOthersMax)

  taken(id: VmId): number {
    return this.#all.taken(id)
  }

  /** Does the same as {@link Places.take}. */
  take(id: VmId, of: ViewerOf): (() => void) | undefined {
    const releaseOther = of === 'other' ? this.#others.take(id) : () => {}
    if (releaseOther === undefined) return undefined
    const release = this.#all.take(id)
    if (release === undefined) {
      releaseOther()
      return undefined
    }
    return () => {
      release()
      releaseOther()
    }
  }
}
