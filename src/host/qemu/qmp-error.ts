import { limits } from '../../config/limits.ts'
import { cutText } from '../../lib/text.ts'

/**
 * Cuts a monitor's text to a length that fits into a fault or a log line. A monitor that its guest took over may send
 * anything.
 */
export const monitorText = (said: unknown): string =>
  cutText(typeof said === 'string' ? said : 'no text', limits.monitorTextCharactersMax)

/** The monitor answered, but refused the command or omitted what was requested. */
export class QmpRefusal extends Error {
  override readonly name = 'QmpRefusal'

  constructor(error: unknown) {
    const { desc } = (error ?? {}) as { desc?: unknown }
    super(typeof desc === 'string' ? monitorText(desc) : 'refused without a reason')
  }
}

/** The connection has ended, or was never made. `why` is an errno name such as `ENOENT`, or our own text. */
export class QmpLost extends Error {
  override readonly name = 'QmpLost'
  readonly why: string

  constructor(why: string) {
    super(`control connection lost: ${why}`)
    this.why = why
  }
}

/** Returns the loss of a connection because of an error: with its errno, or else with its message. */
export const lostBy = (error: unknown): QmpLost => {
  const { code, message } = error as NodeJS.ErrnoException
  return new QmpLost(code ?? message)
}
