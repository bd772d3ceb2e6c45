import { limits } from '../../config/limits.ts'
import { OutboundFailure } from './outbound-failure.ts'
import type { OutboundAnswer } from './outbound-request.ts'

/**
 * Reads the body of an answer up to a bound. If it breaks off, takes too long or is longer, returns what came. It is
 * text of another host: only a code in it may be shown.
 */
export async function textOf({ chunks }: OutboundAnswer): Promise<string> {
  const received: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of chunks) {
      received.push(chunk)
      bytes += chunk.length
      if (bytes >= limits.storeAnswerBytesMax) break
    }
  } catch (error) {
    if (!(error instanceof OutboundFailure)) throw error
  }
  return Buffer.concat(received).subarray(0, limits.storeAnswerBytesMax).toString('utf8')
}
