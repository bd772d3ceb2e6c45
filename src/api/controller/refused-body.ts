import { Readable } from 'node:stream'
import { limits } from '../../config/limits.ts'
import type { IncomingMessage } from 'node:http'

/**
 * Returns an answer that is sent at once and ends when the rest of its request's body has been read and thrown away.
 * Many clients read nothing before they have written everything. If the connection ends while bytes of theirs are
 * unread, the kernel resets it, and the answer is lost (RFC 9112, 9.6). Bytes and time are bounded; at a bound, the
 * connection is closed.
 */
export const answerBeforeBodyEnds = (request: IncomingMessage, answer: string): Readable =>
  Readable.from(
    (async function* () {
      yield Buffer.from(answer)
      await discarded(request)
    })(),
  )

/** Resolves when the body has ended, its connection is gone, or one of the bounds is reached. */
async function discarded(request: IncomingMessage): Promise<void> {
  if (request.complete || request.destroyed) return
  const { promise, resolve } = Promise.withResolvers<void>()
  let bytes = 0
  const count = (chunk: Buffer): void => {
    bytes += chunk.length
    if (bytes > limits.refusedBodyBytesMax) resolve()
  }
  const deadline = setTimeout(resolve, limits.refusedBodyMs)
  request.on('data', count).once('end', resolve).once('close', resolve).resume()
  await promise
  clearTimeout(deadline)
  request.off('data', count).pause()
}
