/** The meaning of a close code, for the API's description and for the people at a viewer. */
export type CloseMeaning = {
  /** Status of RFC 6455, section 7.4.1. */
  readonly status: number
  /** The event, as the beginning of a sentence. */
  readonly title: string
  /** The next move of a viewer, for the API's description. */
  readonly advice?: string
  /** Whether a viewer of a serial console connects again and goes on where it was. */
  readonly again?: true
}

/**
 * Every way in which a console session ends. The reason that is sent is the code, and if there is more to say, a colon
 * and words.
 */
export const closes = {
  vm_stopped: { status: 1000, title: 'The VM has stopped, and its console session with it' },
  vm_deleted: { status: 1000, title: 'The VM is gone' },
  vm_moved: {
    status: 1000,
    title: 'The VM is at another host now',
    advice: 'The words are the node name of that host. A serial console goes on there with since and session',
  },
  shell_ended: { status: 1000, title: 'The shell has ended' },
  daemon_stops: {
    status: 1001,
    title: 'The daemon stops; the VM goes on',
    advice: 'Connect again: a serial console goes on with since and session, a shell is a new one',
    again: true,
  },
  protocol_error: { status: 1002, title: 'The viewer broke the WebSocket protocol (RFC 6455)' },
  not_utf8: { status: 1007, title: 'A text message or a close reason was not UTF-8' },
  too_many_messages: { status: 1008, title: 'Messages come faster than a terminal can make them' },
  message_too_big: { status: 1009, title: 'A message was larger than 64 KiB' },
  ssh_no_address: { status: 1011, title: 'The VM has no address to connect to' },
  ssh_no_route: { status: 1011, title: 'There is no way to the guest' },
  ssh_refused: { status: 1011, title: 'Nothing listens on the SSH port of the guest' },
  ssh_timed_out: { status: 1011, title: 'The guest did not answer in time' },
  ssh_key_refused: { status: 1011, title: "The guest does not accept the daemon's key for this user" },
  ssh_shell_refused: { status: 1011, title: 'The guest gives no shell' },
  ssh_failed: { status: 1011, title: 'The SSH connection failed' },
  ssh_lost: { status: 1011, title: 'The SSH connection broke' },
  internal: { status: 1011, title: 'A bug in vmhostd' },
  viewer_behind: {
    status: 1013,
    title: 'The viewer does not read as fast as the guest writes',
    again: true,
  },
} as const satisfies Record<string, CloseMeaning>

export type CloseCode = keyof typeof closes

const meanings: ReadonlyMap<string, CloseMeaning> = new Map(Object.entries(closes))

const LOSES_OUTPUT: ReadonlySet<CloseCode> = new Set([
  'vm_stopped',
  'vm_deleted',
  'vm_moved',
  'shell_ended',
  'ssh_lost',
])

/** Returns whether earlier output is lost for every later connection to this host. */
export const losesOutput = (code: CloseCode): boolean => LOSES_OUTPUT.has(code)

/** Maximum bytes of a reason: a control frame has 125, and the status takes two (RFC 6455, section 5.5). */
const REASON_BYTES_MAX = 123

/** Returns the reason as it is sent: cut to what a close frame holds. */
export function closeReason(code: CloseCode, words?: string): string {
  if (words === undefined) return code
  // Words are cut at a character, because a reason is UTF-8.
  const whole = new TextEncoder().encode(`${code}: ${words}`).subarray(0, REASON_BYTES_MAX)
  return new TextDecoder().decode(whole).replace(/\u{fffd}+$/u, '')
}

/** The end of a connection, as a viewer sees it. */
export type ConsoleClose = {
  readonly status: number
  /** A {@link CloseCode}, or the code of a newer daemon; empty if the connection broke or another program closed it. */
  readonly code: string
  /** Further explanation; mostly empty. */
  readonly words: string
}

/** The end of a connection without a close frame. */
export const BROKEN: ConsoleClose = { status: 1006, code: '', words: '' }

/** Makes the close with which the daemon ends a connection for this reason. */
export const closeFor = (code: CloseCode): ConsoleClose => ({ status: closes[code].status, code, words: '' })

/** Parses a reason: a code, or a code, a colon and words. */
export function parseClose(status: number, reason: string): ConsoleClose {
  const [, code = '', words = ''] = /^([a-z0-9_]+)(?:: (.*))?$/s.exec(reason) ?? []
  return { status, code, words: code === '' ? reason : words }
}

/** Returns what a code means; undefined for the code of a newer daemon, and if there is none. */
export const meaningOf = ({ code }: ConsoleClose): CloseMeaning | undefined => meanings.get(code)

/** Statuses of RFC 6455, section 7.4.1: the daemon goes away, or there was no close frame. */
const PASSING: ReadonlySet<number> = new Set([1001, 1006])

/** Returns whether a viewer of a serial console connects again. A shell ends with its connection. */
export const isPassing = (close: ConsoleClose): boolean =>
  PASSING.has(close.status) || meaningOf(close)?.again === true
