import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { BrokenStream, FrameDecoder } from '../../core/migration/frame-decoder.ts'
import { StreamRefused } from '../../core/migration/stream-refused.ts'
import { streamChecks } from '../rounds/stream-checks.ts'
import type { Frame } from '../../core/migration/frames.ts'
import type { Answered } from '../../ports/source-host.ts'

/** Bytes of a source, which are given up with `return`. Throws HostFault if the source cannot be read any more. */
export type SourceBytes = AsyncGenerator<Uint8Array, void>

export type FramesToRead = {
  /** The stream from its beginning. */
  readonly first: SourceBytes
  /** Opens the stream at an offset. */
  readonly open: (from: number) => Answered<SourceBytes>
  /** The size of the disk or the memory: no frame goes beyond it. */
  readonly sizeBytes: number
  /** Waits before attempt `number`, from 1, to continue a stream that was cut. */
  readonly pause: (number: number) => Promise<void>
}

/**
 * Yields the frames of a stream until it is whole. A stream that was cut continues behind its last frame. Throws
 * HostFault `source_unreachable`, or what else may pass at the source, if several attempts in a row bring no frame;
 * `source_refused` if the bytes are not those that were sent; and at once a fault of the source that does not pass, and
 * StreamRefused.
 */
export async function* continuedFrames(reading: FramesToRead): AsyncGenerator<Frame, void> {
  const decoder = new FrameDecoder({ sizeBytes: reading.sizeBytes, checks: streamChecks })
  let stream: SourceBytes | undefined = reading.first
  let attempts = 0
  for (;;) {
    const begin = decoder.cut()
    let because: unknown
    try {
      stream ??= await continued(reading, begin)
      for await (const chunk of stream) yield* decoder.push(chunk)
    } catch (error) {
      because = brokenOff(error)
    }
    // A stream may be cut behind its last byte too.
    if (decoder.isWhole) return
    stream = undefined
    attempts = decoder.cut() > begin ? 1 : attempts + 1
    if (attempts > limits.streamAttemptsMax) throw because ?? cutShort()
    await reading.pause(attempts)
  }
}

/** Opens the stream again; throws what the source answers instead of it. */
async function continued({ open }: FramesToRead, from: number): Promise<SourceBytes> {
  const answer = await open(from)
  if (answer.ok) return answer.value
  if (answer.error !== 'busy') throw new StreamRefused(answer.error, from)
  throw new HostFault('source_unreachable', `reading on from byte ${from}`, {
    cause: new Error('the source answers: busy'),
  })
}

/** Returns the error if the stream may still continue after it; otherwise throws. */
function brokenOff(error: unknown): HostFault {
  if (error instanceof BrokenStream)
    throw new HostFault('source_refused', 'reading what the source sends', { cause: error })
  const isPassing =
    error instanceof HostFault && error.code !== 'source_refused' && error.retry !== 'on-change'
  if (isPassing) return error
  throw error
}

const cutShort = (): HostFault =>
  new HostFault('source_unreachable', 'reading what the source sends', {
    cause: new Error('the stream ends before its end'),
  })
