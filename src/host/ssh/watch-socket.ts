import type { Socket } from 'node:net'
import { limits } from '../../config/limits.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'

export type SocketWatch = {
  /** Returns how many bytes are kept for the connection, besides those that the socket itself keeps. */
  readonly keptBytes: () => number
  /** Called when the guest ignores its window, and the bytes that are kept for it exceed the limit. */
  readonly onFlood: () => void
  readonly bytesPerSecond?: number
}

/**
 * Bounds the cost of a guest that violates the protocol. It limits the rate at which the guest is read. It also limits
 * the memory for what the guest sends beyond its window, and for answers that the guest does not read. Must be called
 * on a paused socket.
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
