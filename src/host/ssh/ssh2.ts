import ssh2 from 'ssh2'
import { errorChain } from '../../log/error-chain.ts'
import type { EventEmitter } from 'node:events'
import type { Client as ClientType, ClientChannel } from 'ssh2'
import type { SshFailure } from '../../core/console/guest-ssh.ts'

/**
 * Imports ssh2, as the only file that does. ssh2 is CommonJS, and Node does not find all of its names (node:module,
 * "CommonJS Namespaces").
 */
export const { Client, Server, utils } = ssh2
export type Client = ClientType
export type * from 'ssh2'

/** An error with ssh2's `level` and a code, which is an errno, or a reason of SSH_MSG_DISCONNECT. */
export type SshError = Error & { readonly level?: string; readonly code?: string | number }

/**
 * Keeps a hostile server from what ssh2 would let it do to its client. `onFlood` is called when the server sends beyond
 * its window. Must be called after `connect`.
 */
export function guardAgainstServer(client: Client, onFlood: () => void): void {
  const { _protocol, _chanMgr } = client as unknown as Internals
  const handlers = _protocol._handlers
  refuseGlobalRequests(handlers)
  for (const message of AUTHENTICATION) handlers[message] = onlyOnce(handlers[message])
  hearErrorsFromTheStart(handlers, _chanMgr)
  for (const message of CHANNEL_OUTPUT) handlers[message] = withinWindow(handlers[message], _chanMgr, onFlood)
}

/** The handlers of messages and the channels that ssh2 keeps for a connection. */
type Internals = {
  readonly _protocol: { readonly _handlers: Handlers }
  readonly _chanMgr: { readonly get: (id: number) => unknown }
}
type Handlers = Record<string, Handler | undefined>
type Handler = (...args: readonly unknown[]) => void

/**
 * Refuses all global requests. ssh2 answers one by itself (`hostkeys-00@openssh.com`): it checks all host keys that the
 * server announces, however many and large they are, and keeps each announcement until the server proves its keys.
 */
function refuseGlobalRequests(handlers: Handlers): void {
  handlers['GLOBAL_REQUEST'] = (protocol, _name, wantsReply) => {
    if (wantsReply === true) (protocol as { requestFailure: () => void }).requestFailure()
  }
}

/**
 * The messages by which a server authenticates its client. ssh2 obeys each of them whenever it comes: it signs again,
 * or opens another channel.
 */
const AUTHENTICATION = ['SERVICE_ACCEPT', 'USERAUTH_PK_OK', 'USERAUTH_SUCCESS', 'USERAUTH_FAILURE'] as const

function onlyOnce(handler: Handler | undefined): Handler {
  let isTaken = false
  return (...args) => {
    if (isTaken) return
    isTaken = true
    handler?.(...args)
  }
}

/**
 * Listens for the errors of a channel from when the server confirms it. The server may send output after it has ended
 * the output, which is an error of the stream, before the channel has a shell and so another listener.
 */
function hearErrorsFromTheStart(handlers: Handlers, channels: Internals['_chanMgr']): void {
  const confirmed = handlers['CHANNEL_OPEN_CONFIRMATION']
  handlers['CHANNEL_OPEN_CONFIRMATION'] = (protocol, info) => {
    confirmed?.(protocol, info)
    const channel = channels.get((info as { readonly recipient: number }).recipient)
    if (typeof channel !== 'object' || channel === null) return
    // A stream that fails ends with its connection, whose end is reported.
    for (const stream of [channel, (channel as ClientChannel).stderr] as EventEmitter[])
      stream.on('error', () => {})
  }
}

/** The messages that take a part of the window (RFC 4254, section 5.2). */
const CHANNEL_OUTPUT = ['CHANNEL_DATA', 'CHANNEL_EXTENDED_DATA'] as const

/**
 * Holds the server to its window. ssh2 ignores data only when exactly nothing of the window is left, so a server that
 * steps over that would have no window at all.
 */
function withinWindow(
  handler: Handler | undefined,
  channels: Internals['_chanMgr'],
  onFlood: () => void,
): Handler {
  return (protocol, recipient, data, ...rest) => {
    const channel = channels.get(recipient as number) as Receiving | undefined
    const left = channel?.incoming?.window ?? Infinity
    if ((data as Uint8Array).length > left) return onFlood()
    handler?.(protocol, recipient, data, ...rest)
  }
}

type Receiving = { readonly incoming?: { readonly window: number } }

/**
 * Returns the numbers of the next messages of a connection (RFC 4253, section 6.4). A key exchange may begin them at 0
 * again.
 */
export function messageNumbersOf(client: Client): { readonly received: number; readonly sent: number } {
  const { _protocol } = client as unknown as {
    readonly _protocol: {
      readonly _decipher?: { readonly inSeqno: number }
      readonly _cipher: { readonly outSeqno: number }
    }
  }
  return { received: _protocol._decipher?.inSeqno ?? 0, sent: _protocol._cipher.outSeqno }
}

/** Counts the server as alive. One that is not read cannot answer, and ssh2 would give it up. */
export function noteKeptAlive(client: Client): void {
  ;(client as unknown as { readonly _resetKA?: () => void })._resetKA?.()
}

/**
 * Returns how many bytes wait for the end of a key exchange. ssh2 has taken them from their channel, and has not given
 * them to its socket yet.
 */
export function bytesBehindKeyExchange(client: Client): number {
  const { _protocol } = client as unknown as {
    readonly _protocol?: { readonly _queue?: readonly Uint8Array[] }
  }
  return (_protocol?._queue ?? []).reduce((sum, { length }) => sum + length, 0)
}

/** Returns the longest data that the server takes in one packet of a channel (RFC 4254, section 5.1). */
export const packetBytesOf = (channel: object): unknown =>
  (channel as { readonly outgoing?: { readonly packetSize?: unknown } }).outgoing?.packetSize

/** SSH_DISCONNECT_NO_MORE_AUTH_METHODS_AVAILABLE (RFC 4253, section 11.1). */
const NO_MORE_AUTHENTICATION = 14

/** The failures for the errnos of connect(2). A firewall causes EPERM and EACCES. */
const KIND_OF_ERRNO: Readonly<Record<string, SshFailure['kind']>> = {
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'no_route',
  ENETUNREACH: 'no_route',
  EHOSTDOWN: 'no_route',
  ENETDOWN: 'no_route',
  ETIMEDOUT: 'timed_out',
  EPERM: 'no_route',
  EACCES: 'no_route',
}

/** Says why a connection could not be made. */
export function connectFailure(error: SshError): SshFailure {
  return { kind: kindOf(error), detail: inWords(error) }
}

function kindOf({ level, code }: SshError): SshFailure['kind'] {
  if (typeof code === 'number') return code === NO_MORE_AUTHENTICATION ? 'key_refused' : 'failed'
  if (level === 'client-socket') return KIND_OF_ERRNO[code ?? ''] ?? 'failed'
  if (level === 'client-authentication') return 'key_refused'
  if (level === 'client-timeout') return 'timed_out'
  return 'failed'
}

/**
 * Describes an error for a viewer and the log. Text from the guest is left out, because it could control the terminal
 * that shows it.
 */
export function inWords(error: SshError): string {
  if (typeof error.code === 'number') return `the guest ended the connection with SSH reason ${error.code}`
  // The message of a refused channel ends with the guest's own description.
  if ('reason' in error) return `the guest refused a channel with SSH reason ${Number(error.reason)}`
  return errorChain(error).replace(/[^ -~]+/g, '?')
}
