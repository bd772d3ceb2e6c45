import type { Socket } from 'node:net'
import { limits } from '../../config/limits.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'
import { messageNumbersOf, noteKeptAlive } from './ssh2.ts'
import type { Client } from './ssh2.ts'

export type SocketWatch = {
  /** Returns how many bytes of output the shell keeps; undefined while there is no shell. */
  readonly shellBytes: () => number | undefined
  /** Called when more is kept for the connection than an honest guest causes. */
  readonly onFlood: () => void
  readonly bytesPerSecond?: number
}

/**
 * Bounds what a guest costs by what it sends. It limits the rate at which the guest is read, and the memory for its
 * output and for answers that it does not read. Each message counts beside its bytes: ssh2 handles messages one by one,
 * and keeps a buffer for each. Must be called on a paused socket, after ssh2 has begun to listen to it.
 */
export function watchSocket(client: Client, socket: Socket, watch: SocketWatch): void {
  const budget = new TokenBucket({
    perSecond: watch.bytesPerSecond ?? limits.consoleMovedBytesPerSecond,
    burst: limits.consoleMovedBurstBytes,
    nowMs: performance.now(),
  })
  const received = new MessagesKept()
  const sent = new MessagesKept()
  let rest: NodeJS.Timeout | undefined
  // An honest guest may fill its window with short messages. So it is not cut off, but waits for its viewer.
  const isFull = (): boolean => {
    const bytes = watch.shellBytes()
    return bytes !== undefined && received.cost(bytes) > limits.sshKeptBytesMax
  }
  const restFor = (ms: number): void => {
    socket.pause()
    rest = setTimeout(() => {
      if (isFull()) {
        noteKeptAlive(client)
        return restFor(limits.sshFullLookMs)
      }
      rest = undefined
      socket.resume()
    }, ms)
  }
  socket.on('data', (chunk: Buffer) => {
    const numbers = messageNumbersOf(client)
    const messages = received.note(numbers.received)
    sent.note(numbers.sent)
    // What the guest sends before the shell stays in memory, and an honest guest sends little.
    const early = watch.shellBytes() === undefined ? received.cost(socket.bytesRead) : 0
    if (sent.cost(socket.writableLength) + early > limits.sshKeptBytesMax) return watch.onFlood()
    const moved = chunk.length + messages * limits.sshMessageMovedBytes
    const pauseMs = Math.max(budget.spend(performance.now(), moved), isFull() ? limits.sshFullLookMs : 0)
    if (pauseMs > 0 && rest === undefined) restFor(pauseMs)
  })
  socket.on('close', () => clearTimeout(rest))
}

/** Counts the messages of one direction that may still be kept: those since no byte was kept. */
class MessagesKept {
  #number = 0
  #count = 0

  /** Notes the number of the next message. Returns how many have passed since the last call. */
  note(number: number): number {
    // A key exchange may begin the numbers at 0 again.
    const passed = number >= this.#number ? number - this.#number : number
    this.#number = number
    this.#count += passed
    return passed
  }

  /** Returns what is kept, with what the messages of these bytes cost. */
  cost(bytes: number): number {
    if (bytes === 0) this.#count = 0
    return bytes + this.#count * limits.sshMessageKeptBytes
  }
}
