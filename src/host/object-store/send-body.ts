import type { ClientRequest } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { assert } from '../../lib/assert.ts'
import type { PartBody } from '../../ports/object-store.ts'
import type { BandwidthLimit, Patience } from './transfer-limits.ts'

export type Sending = {
  readonly body: PartBody
  readonly limit: BandwidthLimit
  readonly patience: Patience
  /** Called with the bytes of each piece that the kernel took. */
  readonly onSent: (bytes: number) => void
}

/**
 * Sends a body piece by piece, each after the kernel took the one before, and ends the request with the last. Stops
 * when `stop` aborts or the connection breaks; the reader of the answer then gets the reason. Throws what the body
 * throws.
 */
export async function sendBody(request: ClientRequest, sending: Sending, stop: AbortSignal): Promise<void> {
  const { body, limit, patience, onSent } = sending
  const closed = new Promise<false>((resolve) => request.once('close', () => resolve(false)))
  let left = body.bytes
  patience.rest()
  try {
    for await (const chunk of body.chunks(stop)) {
      for (let at = 0; at < chunk.length; at += limits.sendChunkBytes) {
        const piece = chunk.subarray(at, at + limits.sendChunkBytes)
        await limit.spend(piece.length, stop, (ms) => patience.excuse(ms))
        stop.throwIfAborted()
        left -= piece.length
        assert(left >= 0, `a body of ${body.bytes} bytes has more of them`)
        patience.moved()
        if (!(await Promise.race([handOver(request, piece, left === 0), closed]))) return
        onSent(piece.length)
        if (left === 0 || stop.aborted) return
        patience.rest()
        // This lets an answer be read before its connection is found broken, if the store closed the connection after
        // the answer.
        await nextTurn()
      }
    }
  } catch (error) {
    if (stop.aborted) return
    throw error
  }
  assert(stop.aborted || left === 0, `a body of ${body.bytes} bytes lacks ${left} of them`)
}

/**
 * Waits until the store asks for the body, or has been silent for long enough (RFC 9110, 10.1.1). Returns false if the
 * store answered, or if the connection broke.
 */
export async function mayContinue(
  request: ClientRequest,
  longEnough: Promise<void>,
  stop: AbortSignal,
): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const onEnd = (): void => resolve(false)
  request.once('continue', () => resolve(true)).once('close', onEnd)
  stop.addEventListener('abort', onEnd, { once: true })
  if (stop.aborted || request.destroyed) onEnd()
  request.flushHeaders()
  return Promise.race([promise, longEnough.then(() => true)])
}

/** Resolves to true once the kernel has the piece. */
function handOver(request: ClientRequest, piece: Uint8Array, isLast: boolean): Promise<boolean> {
  return new Promise((resolve) => {
    if (isLast) request.end(piece, () => resolve(true))
    else request.write(piece, (error) => resolve(error === null || error === undefined))
  })
}
