import websocket from '@fastify/websocket'
import { closes, closeReason } from '../../core/console/close.ts'
import { webSocketOptions } from '../console/console-sockets.ts'
import { hasOneHost } from '../listener/refuse-malformed.ts'
import { upgradeIdOf } from '../listener/request-id.ts'
import type { WebsocketPluginOptions } from '@fastify/websocket'
import type { IncomingMessage } from 'node:http'
import type { Log } from '../../log/log.ts'
import type { App } from '../listener/app.ts'

/**
 * The only path that upgrades. It has no percent signs: ids do not need them, and a path that cannot be decoded is
 * answered before an upgrade begins.
 */
const CONSOLE_PATH = /^\/v1\/vms\/[^/?%]+\/console(?:\?|$)/

/** 16 bytes in base64 (RFC 6455, section 4.1). */
const KEY = /^[A-Za-z0-9+/]{22}==$/

/** A token (RFC 9110, section 5.6.2), with the white space that may be around it in a list. */
const TOKEN = /^[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*$/

export const WEBSOCKET_VERSION = '13'

/** Says what is wrong with the opening handshake of a WebSocket (RFC 6455, section 4.2.1); undefined if it is valid. */
export function handshakeFault(request: IncomingMessage): string | undefined {
  const { method, httpVersion, headers } = request
  if (method !== 'GET') return 'the handshake is a GET request'
  if (httpVersion !== '1.1') return 'the handshake is made over HTTP/1.1'
  if (!hasOneHost(request)) return 'the handshake has one Host header'
  if (headers.upgrade?.toLowerCase() !== 'websocket' || !hasToken(headers.connection, 'upgrade'))
    return 'the handshake has the headers "Connection: Upgrade" and "Upgrade: websocket"'
  if (headers['sec-websocket-version'] !== WEBSOCKET_VERSION)
    return `the handshake has the header "Sec-WebSocket-Version: ${WEBSOCKET_VERSION}"`
  if (!KEY.test(headers['sec-websocket-key'] ?? ''))
    return 'the handshake has a Sec-WebSocket-Key of 16 bytes in base64'
  // The library refuses such a header too, but only when the console is open, and not with a problem.
  if (!namesEachOnce(headers['sec-websocket-protocol']))
    return 'the header Sec-WebSocket-Protocol, if there is one, has distinct tokens with commas between them'
  if (headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0')
    return 'the handshake has no body'
  return undefined
}

/**
 * Returns whether a request asks for an upgrade that this server supports. Any other is answered as if it had not asked
 * (RFC 9110, section 7.8).
 */
export const beginsUpgrade = (request: IncomingMessage): boolean =>
  CONSOLE_PATH.test(request.url ?? '') && handshakeFault(request) === undefined

/**
 * Passes upgrades through the same hooks as all requests. Call it before any other hook is added: if a later hook
 * refuses a request, the plugin must already know that it has to end the connection.
 */
export async function acceptUpgrades(app: App, log: Log): Promise<void> {
  await app.register(websocket, {
    // The plugin's types take the library's module for the class of its sockets.
    options: webSocketOptions as NonNullable<WebsocketPluginOptions['options']>,
    errorHandler: (error, socket) => {
      // A socket that failed is already closed with a reason; if it is open, its handler failed.
      if (socket.readyState !== socket.OPEN) {
        log.debug({ error }, 'console socket failed')
        return
      }
      log.error({ error }, 'console upgrade failed: internal error')
      socket.close(closes.internal.status, closeReason('internal'))
    },
    // Consoles end by themselves; see their route.
    preClose: (done) => done(),
  })
  app.websocketServer.on('headers', (headers, request) => {
    const id = upgradeIdOf(request)
    if (id !== undefined) headers.push(`X-Request-Id: ${id}`)
  })
}

const hasToken = (header: string | undefined, token: string): boolean =>
  (header ?? '').split(',').some((one) => one.trim().toLowerCase() === token)

/** Returns whether a list of tokens is well formed and has no token twice. A header that is absent is. */
function namesEachOnce(header: string | undefined): boolean {
  const tokens = header?.split(',').map((one) => TOKEN.exec(one)?.[1]) ?? []
  return !tokens.includes(undefined) && new Set(tokens).size === tokens.length
}
