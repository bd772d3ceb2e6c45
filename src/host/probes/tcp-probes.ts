import { closeSync } from 'node:fs'
import { addAbortSignal } from 'node:stream'
import { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { beginConnection, isConnected } from './marked-connection.ts'
import type { GuestProbes, ProbeTarget } from '../../ports/guest-probes.ts'

/**
 * A connection within the guest's network is there in less than a millisecond.
 * Later looks at it come at longer intervals.
 */
const LOOK_MS = { first: 1, last: 50 }
/** The longest status line that is read, and more than any server sends. */
const STATUS_LINE_BYTES = 256

/** Asks guests over TCP connections whose packets have a mark, so that they do not count as traffic. */
export class TcpProbes implements GuestProbes {
  readonly #mark: number

  constructor({ mark }: { readonly mark: number }) {
    this.#mark = mark
  }

  async probe({ address, check }: ProbeTarget): Promise<string | undefined> {
    const { protocol, port, path = '/' } = check
    const until = AbortSignal.timeout(limits.readinessProbeMs)
    let fd: number | undefined
    try {
      fd = beginConnection({ address, port, mark: this.#mark })
      if (!(await connects(fd, port, until)))
        return `port ${port} took no connection within ${limits.readinessProbeMs} ms`
      if (protocol === 'tcp') return undefined
      const socket = addAbortSignal(until, new Socket({ fd }))
      // The socket closes it from here on.
      fd = undefined
      return await asksHttp(socket, { host: address.includes(':') ? `[${address}]` : address, port, path })
    } catch (error) {
      if (error instanceof ErrnoError) return error.message
      throw error
    } finally {
      if (fd !== undefined) closeSync(fd)
    }
  }
}

/** Waits until a socket is connected. Resolves to false when the time is over. Throws ErrnoError. */
async function connects(fd: number, port: number, until: AbortSignal): Promise<boolean> {
  for (let ms = LOOK_MS.first; !isConnected(fd, port); ms = Math.min(ms * 2, LOOK_MS.last)) {
    await delay(ms, undefined, { signal: until }).catch(() => {})
    if (until.aborted) return false
  }
  return true
}

type HttpQuestion = { readonly host: string; readonly port: number; readonly path: string }

/** Asks a web server for a path; resolves to why its answer is not a success, or to undefined if it is one. */
async function asksHttp(socket: Socket, { host, port, path }: HttpQuestion): Promise<string | undefined> {
  const what = `GET ${path} on port ${port}`
  let line = ''
  try {
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: ${host}:${port}\r\nUser-Agent: vmhostd\r\nConnection: close\r\n\r\n`,
    )
    for await (const chunk of socket) {
      line += (chunk as Buffer).toString('latin1', 0, STATUS_LINE_BYTES)
      if (line.includes('\n') || line.length >= STATUS_LINE_BYTES) break
    }
  } catch {
    // The connection broke, or the time is up.
  } finally {
    socket.destroy()
  }
  const status = /^HTTP\/1\.[01] (\d{3})\b/.exec(line)?.[1]
  if (status === undefined) return `${what}: no status within ${limits.readinessProbeMs} ms`
  return status.startsWith('2') || status.startsWith('3') ? undefined : `${what}: status ${status}`
}
