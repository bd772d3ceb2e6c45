/** Sends first packets to a guest, each of a separate flow, and times the guest's answers. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { sh } from './shell.ts'

const BOUND_MS = 20_000
/** No program listens there; the guest's kernel reports that. */
const CLOSED_PORT = 9

export type Exchange = {
  readonly connectMs: number
  readonly firstByteMs: number
  /** Segments that were sent again, because one was lost or its answer came too late. */
  readonly retransmitted: number
}

/** Requests a page from the guest's web server, timed from before the first packet. */
export async function exchange(host: string): Promise<Exchange> {
  // Half-open, so that the kernel can be asked about the connection when the server has closed it.
  const socket = connect({ host, port: 80, allowHalfOpen: true, noDelay: true })
  socket.setTimeout(BOUND_MS, () =>
    socket.destroy(new Error(`${host}: no answer over TCP within ${BOUND_MS} ms`)),
  )
  try {
    const startedAt = performance.now()
    await once(socket, 'connect')
    const connectMs = performance.now() - startedAt
    socket.write('GET /none HTTP/1.0\r\n\r\n')
    const [answer] = (await once(socket, 'data')) as [Buffer]
    const firstByteMs = performance.now() - startedAt
    if (!answer.toString().startsWith('HTTP/1.')) throw new Error(`${host} does not answer HTTP`)
    return { connectMs, firstByteMs, retransmitted: await retransmitted(socket.localPort ?? 0) }
  } finally {
    socket.destroy()
  }
}

/** Returns the second number in `retrans:now/ever` of ss(8); 0 if ss prints none. */
async function retransmitted(localPort: number): Promise<number> {
  const sockets = await sh('ss', '-tinH', 'state', 'all', `sport = :${localPort}`)
  if (!sockets.includes('cwnd:')) throw new Error(`the kernel knows no connection from port ${localPort}`)
  return Number(/retrans:\d+\/(\d+)/.exec(sockets)?.[1] ?? 0)
}

/**
 * Sends one datagram to a closed port, and returns the milliseconds until the guest's ICMP answer. A guest's kernel
 * limits the rate of these answers: see QUIET_NOT.
 */
export async function datagram(host: string): Promise<number> {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const bound = setTimeout(
    () => reject(new Error(`${host}: no answer over UDP within ${BOUND_MS} ms`)),
    BOUND_MS,
  )
  try {
    socket.connect(CLOSED_PORT, host)
    await once(socket, 'connect')
    const startedAt = performance.now()
    socket.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNREFUSED' ? resolve(performance.now() - startedAt) : reject(error),
    )
    socket.send('is anybody there?')
    return await promise
  } finally {
    clearTimeout(bound)
    socket.close()
  }
}

/** A command for the guest: its kernel then answers every datagram to a closed port (ip-sysctl.rst). */
export const QUIET_NOT =
  'echo 0 >/proc/sys/net/ipv4/icmp_ratelimit; echo 0 >/proc/sys/net/ipv6/icmp/ratelimit; echo 100000 >/proc/sys/net/ipv4/icmp_msgs_per_sec; echo 100000 >/proc/sys/net/ipv4/icmp_msgs_burst'

/** Sends one echo request; returns the milliseconds until ping(8) has its reply and has ended. */
export async function echo(host: string): Promise<number> {
  const startedAt = performance.now()
  await sh('ping', '-n', '-q', '-c', '1', '-W', String(BOUND_MS / 1000), host)
  return performance.now() - startedAt
}
