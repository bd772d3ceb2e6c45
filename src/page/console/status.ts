import { ApiProblem, UnexpectedAnswer } from '../../client/api-problem.ts'
import { meaningOf } from '../../core/console/close.ts'
import { given } from '../../lib/given.ts'
import type { ConsoleClose } from '../../core/console/close.ts'
import type { ConsoleGuest } from '../../core/console/console-viewer.ts'

/** The status of the connection. */
export type Status =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'attached'; readonly guest: ConsoleGuest }
  | { readonly kind: 'waiting' }
  /** The daemon does not answer, or not yet; the page keeps trying. */
  | { readonly kind: 'away'; readonly because: string }
  /** The page pauses: the guest writes faster than the page can draw. */
  | { readonly kind: 'behind' }
  | {
      readonly kind: 'refused'
      readonly title: string
      readonly detail: string
      /** Code of the problem; absent if the answer is not one of the daemon. */
      readonly code?: string
      /** The part of the address that is not right; absent if none is. */
      readonly pointer?: string
    }
  | { readonly kind: 'ended'; readonly code: string; readonly words: string }

/** Returns whether what is typed goes to the guest, now or when the page has caught up. */
export const takesInput = ({ kind }: Status): boolean => kind === 'attached' || kind === 'behind'

const SHORT_WORDS: Readonly<Record<Status['kind'], string>> = {
  connecting: 'connecting',
  attached: 'attached',
  waiting: 'not running here',
  away: 'reconnecting',
  behind: 'catching up',
  refused: 'refused',
  ended: 'ended',
}

/** Returns a short form for the title of the page. */
export const shortWords = (status: Status): string =>
  status.kind === 'attached' && status.guest !== 'running' ? status.guest : SHORT_WORDS[status.kind]

/** Words of an attached console. They are short, so that the terminal keeps its height when the guest falls asleep. */
const GUEST_WORDS: Readonly<Record<ConsoleGuest, string>> = {
  running: 'Attached',
  sleeping: 'The VM sleeps. Typed input waits',
  paused: 'The VM is paused. Typed input waits',
}

export function statusWords(status: Status): string {
  switch (status.kind) {
    case 'connecting':
      return 'Connecting'
    case 'attached':
      return GUEST_WORDS[status.guest]
    case 'waiting':
      return 'The VM does not run on this host. Waiting for its next start here'
    case 'away':
      return `${status.because}. Connecting again; typing is off`
    case 'behind':
      return 'The guest writes faster than this page can show. Catching up'
    case 'refused':
      // The title is of any resource, and the detail names this one.
      return status.code === 'not_found' ? sentence(status.detail) : `${status.title}: ${status.detail}`
    case 'ended':
      return status.words
    default:
      return status satisfies never
  }
}

/** Returns the status while a lost connection is made again. */
export function statusOfLoss(because: ConsoleClose | Error): Status {
  if (because instanceof ApiProblem) return { kind: 'away', because: because.problem.title }
  if (because instanceof Error) return { kind: 'away', because: sentence(because.message) }
  // The page did not read, because it was drawing.
  if (because.code === 'viewer_behind') return { kind: 'behind' }
  return { kind: 'away', because: wordsOf(because) }
}

/** Returns the status after the end of a console. */
export const statusOfClose = (close: ConsoleClose): Status => ({
  kind: 'ended',
  code: close.code,
  words: wordsOf(close),
})

/** Returns the status after an error that will not pass. */
export function statusOfRefusal(error: unknown): Status {
  if (error instanceof ApiProblem) {
    const { title, detail, code, errors: [first] = [] } = error.problem
    return { kind: 'refused', title, detail, code, ...given({ pointer: first?.pointer }) }
  }
  if (error instanceof UnexpectedAnswer)
    return {
      kind: 'refused',
      title: `HTTP status ${error.status}`,
      detail: 'the answer is not one of the daemon',
    }
  throw error
}

/** A page that has nothing to show but why there is no terminal. */
export type Notice = { readonly title: string; readonly words: string }

/**
 * Returns what stands in the place of a terminal that has nothing to show: after a refusal, or an end before a session
 * began, because an empty terminal would look like a guest that says nothing. Undefined if the terminal is shown.
 */
export function noticeOf(status: Status, hasShown: boolean): Notice | undefined {
  if (hasShown || (status.kind !== 'refused' && status.kind !== 'ended')) return undefined
  return { title: statusWords(status), words: hintOf(status) }
}

function hintOf(status: Extract<Status, { readonly kind: 'refused' | 'ended' }>): string {
  if (status.kind === 'refused' && status.pointer === '/user') return 'Change the name beside SSH.'
  return HINTS[status.code ?? ''] ?? '“Connect again” tries it once more.'
}

/** Next moves of a reader, by the code of a problem or of a close. */
const HINTS: Readonly<Record<string, string>> = {
  not_found: 'It may have been deleted, or its name is another one.',
  role_required: 'Your certificate opens consoles of other VMs only.',
  vm_migrated: 'Open its console at its new host.',
  vm_arriving: 'Connect again when it is here.',
  vm_not_running: 'Start it, and then connect again.',
  invalid_request: 'Correct the address of the page.',
  vm_deleted: 'Its console went with it.',
  vm_moved: 'Open its console at its new host.',
  ssh_no_address: 'The serial console needs no address.',
  ssh_no_route: 'The serial console needs no network: it may show what is wrong.',
  ssh_refused: 'Is an SSH server running in the guest? The serial console works without it.',
  ssh_timed_out:
    'If the guest still boots, connect again in a moment. The serial console shows how far it is.',
  ssh_key_refused:
    'Is the name beside SSH right? Then that user must accept the key of this host: host.ssh_public_key of GET /v1/sync.',
}

function wordsOf(close: ConsoleClose): string {
  const title = meaningOf(close)?.title ?? close.code
  return [title, close.words].filter((part) => part !== '').join(': ') || 'The connection broke'
}

const sentence = (message: string): string => message.charAt(0).toUpperCase() + message.slice(1)
