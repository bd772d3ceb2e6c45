import { closes } from '../../core/console/close.ts'
import type { ConsoleClose } from '../../client/console-messages.ts'

/** The status of the connection. */
export type Status =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'attached' }
  | { readonly kind: 'waiting' }
  /** The daemon does not answer, or not yet; the page keeps trying. */
  | { readonly kind: 'away'; readonly because: string }
  /** The page pauses: the guest writes faster than the page can draw. */
  | { readonly kind: 'behind' }
  | { readonly kind: 'refused'; readonly title: string; readonly detail: string }
  | { readonly kind: 'ended'; readonly words: string }

/** Short forms for the title of the page. */
export const shortWords: Readonly<Record<Status['kind'], string>> = {
  connecting: 'connecting',
  attached: 'attached',
  waiting: 'VM stopped',
  away: 'reconnecting',
  behind: 'catching up',
  refused: 'refused',
  ended: 'ended',
}

export function statusWords(status: Status): string {
  switch (status.kind) {
    case 'connecting':
      return 'Connecting'
    case 'attached':
      return 'Attached'
    case 'waiting':
      return 'The VM is stopped. Waiting for its next start'
    case 'away':
      return `${status.because}. Connecting again; typing is off`
    case 'behind':
      return 'The guest writes faster than this page can show. Catching up'
    case 'refused':
      return `${status.title}: ${status.detail}`
    case 'ended':
      return status.words
    default:
      return status satisfies never
  }
}

/** The page's next action after its connection has ended. */
export type AfterClose =
  | { readonly kind: 'again'; readonly because: string }
  | { readonly kind: 'ended'; readonly words: string }

/** Decides what follows a close. A serial console continues; a shell over SSH ends with its connection. */
export function afterClose(mode: 'tty' | 'ssh', { status, code, words }: ConsoleClose): AfterClose {
  const title = Object.entries(closes).find(([known]) => known === code)?.[1].title ?? code
  const said = [title, words].filter((part) => part !== '').join(': ')
  if (mode === 'ssh' || !(AGAIN.has(status) || code === 'viewer_behind'))
    return { kind: 'ended', words: said || BROKEN }
  return { kind: 'again', because: code === 'daemon_stops' ? 'The daemon is away' : said || BROKEN }
}

const BROKEN = 'The connection broke'
/** Statuses of RFC 6455, section 7.4.1: the daemon goes away, or there was no close frame. */
const AGAIN: ReadonlySet<number> = new Set([1001, 1006])
