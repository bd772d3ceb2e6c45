import { Readable } from 'node:stream'
import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import { CopyEnded, StreamsFull } from '../../owners/migration/copy-places.ts'
import { auditUnanswered } from '../listener/audit.ts'
import { JSON_MEDIA_TYPE, requestIdHeader } from '../listener/answers.ts'
import { Refused } from '../listener/refused.ts'
import { refuseStream, rejectionOf } from './refusals.ts'
import { offerOf } from './requests.ts'
import type { FastifyReply } from 'fastify'
import type { Log } from '../../log/log.ts'

/** The reason of a signal when the client has gone away. */
class ClientGone extends Error {
  override readonly name = 'ClientGone'
}

/** Describes an answer of bytes. */
export const streamAnswer = (description: string) => ({
  description,
  headers: requestIdHeader,
  content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
})

/**
 * Runs what may take long, with a signal that aborts when the client goes away. Then there is nothing to answer, and
 * the audit trail says so.
 */
export async function whileConnected<T>(
  reply: FastifyReply,
  log: Log,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T | void> {
  const gone = new AbortController()
  reply.raw.once('close', () => gone.abort(new ClientGone('the client has gone away')))
  try {
    return await task(gone.signal)
  } catch (error) {
    // The next request gets the reason.
    const { id } = offerOf(reply.request)
    if (error instanceof StreamsFull) throw new Refused(refuseStream(id))
    if (error instanceof CopyEnded) throw new Refused(rejectionOf(id, 'busy'))
    if (!(error instanceof ClientGone)) throw error
    auditUnanswered(log, reply.request)
    reply.hijack()
  }
}

/**
 * Answers with a stream. What fails before the first bytes is answered as a problem. What fails later cuts the
 * connection, so that no client takes a part for the whole. A client that takes nothing for `stallMs` is cut off.
 */
export async function sendStream(
  reply: FastifyReply,
  chunks: AsyncIterable<Uint8Array>,
  log: Log,
  stallMs: number = limits.streamStallMs,
): Promise<FastifyReply> {
  const { request } = reply
  const iterator = chunks[Symbol.asyncIterator]()
  const first = await iterator.next()
  const copies = async function* (): AsyncGenerator<Buffer, void> {
    try {
      // A copy, because a chunk is valid only until the next one is requested, and the connection keeps some.
      for (let next = first; next.done !== true; next = await iterator.next()) yield Buffer.from(next.value)
    } catch (error) {
      if (!(error instanceof ClientGone))
        log.warn(
          { request_id: request.id, migration_id: offerOf(request).id, error: errorChain(error) },
          'stream cut',
        )
      throw error
    } finally {
      await iterator.return?.()
    }
  }
  // Node counts each byte that the connection takes, and sets its own time again after the answer.
  reply.raw.setTimeout(stallMs, () => reply.raw.destroy())
  if (!reply.hasHeader('content-type')) reply.type('application/octet-stream')
  return reply.send(Readable.from(copies(), { highWaterMark: 1 }))
}

/**
 * Answers with JSON that may take long to make. White space, which may stand before a value (RFC 8259, section 2), goes
 * out while it is not ready, because a client takes a host that sends nothing for one that is gone. What fails before
 * the first of it is answered as a problem. What fails later cuts the connection, and the next request gets the reason.
 */
export async function sendWhenReady<T extends object>(
  reply: FastifyReply,
  making: Promise<T>,
  log: Log,
  quietMs: number = limits.answerQuietMs,
): Promise<T | FastifyReply> {
  if (await isSettled(making, quietMs)) return making
  const parts = async function* (): AsyncGenerator<Uint8Array, void> {
    do yield Buffer.from(' ')
    while (!(await isSettled(making, quietMs)))
    yield Buffer.from(JSON.stringify(await making))
  }
  reply.type(JSON_MEDIA_TYPE)
  return sendStream(reply, parts(), log)
}

/** Returns whether a promise is settled within some time. */
async function isSettled(promise: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise: waited, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), ms)
  promise.then(
    () => resolve(true),
    () => resolve(true),
  )
  return await waited.finally(() => clearTimeout(timer))
}
