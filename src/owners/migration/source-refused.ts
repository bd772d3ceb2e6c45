import { StreamRefused } from '../../core/migration/stream-refused.ts'
import { faults } from '../../core/problems/catalogue.ts'
import { MIB, mibUp } from '../../lib/byte-units.ts'
import { err } from '../../lib/result.ts'
import type { FaultCode, RetryClass } from '../../core/errors.ts'
import type { ArrivalRefusal, ArrivalRequest } from '../../core/migration/arrival.ts'
import type { SourceRefusal } from '../../core/migration/departure.ts'
import type { Frame } from '../../core/migration/frames.ts'
import type { Result } from '../../lib/result.ts'

/** Thrown when the source refuses a request for good, or this host gives the VM up. Its course ends with that. */
export class SourceRefused extends Error {
  override readonly name = 'SourceRefused'
  readonly request: ArrivalRequest
  readonly because: ArrivalRefusal

  constructor(request: ArrivalRequest, because: ArrivalRefusal) {
    super(`the source refused to ${request}: ${because}`)
    this.request = request
    this.because = because
  }
}

/** Thrown when a VM cannot come now, without a fault of this host. */
export class Hindered extends Error {
  override readonly name = 'Hindered'
  readonly code: FaultCode
  readonly retry: RetryClass

  constructor(code: FaultCode, message: string) {
    super(message)
    this.code = code
    this.retry = faults[code].retry
  }
}

/**
 * Throws Hindered if the source has more bytes of something than this host has admitted. They would take room of the
 * pool that other VMs were promised.
 */
export function checkLength(what: 'disk' | 'memory', bytes: number, mostMib: number): void {
  if (bytes <= mostMib * MIB) return
  const detail = `the source says that the ${what} has ${mibUp(bytes)} MiB; at most ${mostMib} MiB were admitted`
  throw new Hindered('source_refused', detail)
}

/** Yields the frames of an answer. Throws as {@link accepted} does, also if the source refuses to send on. */
export async function* acceptedFrames(
  request: ArrivalRequest,
  answer: Result<AsyncIterable<Frame>, SourceRefusal>,
): AsyncGenerator<Frame, void> {
  const frames = accepted(request, answer)
  try {
    yield* frames
  } catch (error) {
    if (error instanceof StreamRefused) accepted(request, err(error.answer))
    throw error
  }
}

/** Returns what the source answered. Throws SourceRefused, and Hindered when it must be asked again. */
export function accepted<T>(request: ArrivalRequest, answer: Result<T, SourceRefusal>): T {
  if (answer.ok) return answer.value
  if (answer.error === 'busy' || answer.error === 'too_early')
    throw new Hindered('source_busy', `asking the source to ${request}`)
  // The source may have lost its record, and cannot say whether it released the guest.
  if (answer.error === 'unknown' && request === 'release')
    throw new Hindered('source_refused', 'asking the source for the release: it does not know the migration')
  throw new SourceRefused(request, answer.error)
}
