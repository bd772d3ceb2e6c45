import type { Socket } from 'node:net'
import { limits } from '../../config/limits.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'

export type SocketWatch = {
  /** What is kept of the connection besides what the socket itself keeps, in bytes. */
  readonly keptBytes: () => number
  /** The guest keeps to no window: what is kept for it has passed the limit. */
  readonly onFlood: () => void
  readonly bytesPerSecond?: number
}

/**
 * Bounds what a guest can cost that does not keep to the protocol: the rate at which it is read, whatever it sends, and
 * the memory for what it sends past its window or makes us answer without reading the answers. To be called on a socket
 * that is paused.
 */
export function watchSocket(socket: Socket, watch: SocketWatch): void {
  const perSecond = watch.bytesPerSecond ?? limits.consoleMovedBytesPerSecond
  const budget = new TokenBucket({
    perSecond,
    burst: limits.consoleMovedBurstBytes,
    nowMs: performance.now(),
  })
  let rest: NodeJS.Timeout | undefined
  socket.on('data', (chunk: Buffer) => {
    if (socket.writableLength + watch.keptBytes() > limits.sshKeptBytesMax) return watch.onFlood()
    const pauseMs = budget.spend(performance.now(), chunk.length)
    if (pauseMs === 0 || rest !== undefined) return
    socket.pause()
    rest = setTimeout(() => {
      rest = undefined
      socket.resume()
    }, pauseMs)
  })
  socket.on('close', () => clearTimeout(rest))
}
