import { limits } from '../../config/limits.ts'
import { cutText } from '../../lib/cut-text.ts'

/** What a monitor says, cut to what a fault or a log line has room for: a monitor that its guest took over says anything. */
export const monitorText = (said: unknown): string =>
  cutText(typeof said === 'string' ? said : 'no text', limits.monitorTextCharactersMax)

/** The monitor answered, but refused the command or left out what was asked for. */
export class QmpRefusal extends Error {
  override readonly name = 'QmpRefusal'

  constructor(error: unknown) {
    const { desc } = (error ?? {}) as { desc?: unknown }
    super(typeof desc === 'string' ? monitorText(desc) : 'refused without a reason')
  }
}

/** The connection is over, or was never made; `why` is an errno name such as `ENOENT`, or our own words. */
export class QmpLost extends Error {
  override readonly name = 'QmpLost'
  readonly why: string

  constructor(why: string) {
    super(`control connection lost: ${why}`)
    this.why = why
  }
}

/** The loss of a connection that an error ended. Anything but an errno is told in its own words. */
export const lostBy = (error: unknown): QmpLost => {
  const { code, message } = error as NodeJS.ErrnoException
  return new QmpLost(code ?? message)
}
