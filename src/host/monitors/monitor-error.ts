import { HostFault } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import { unitName } from '../../core/unit/unit-spec.ts'
import type { FaultCode } from '../../core/errors.ts'
import { limits } from '../../config/limits.ts'
import { cutText } from '../../lib/text.ts'

/**
 * Cuts a monitor's text to a length that fits into a fault or a log line. A monitor that its guest took over may send
 * anything.
 */
export const monitorText = (said: unknown): string =>
  cutText(typeof said === 'string' ? said : 'no text', limits.monitorTextCharactersMax)

/** The monitor answered, but refused the command or omitted what was requested. */
export class MonitorRefusal extends Error {
  override readonly name = 'MonitorRefusal'

  constructor(error: unknown) {
    const { desc } = (error ?? {}) as { desc?: unknown }
    super(typeof desc === 'string' ? monitorText(desc) : 'refused without a reason')
  }
}

/**
 * The reasons that mean `silent`: no process listens yet or any longer, or one listens but does not answer yet;
 * unix(7), connect(2).
 */
const MEANS_SILENT: ReadonlySet<string> = new Set([
  ...['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EAGAIN'],
  ...['closed', 'no greeting', 'no answer'],
])

/** The connection has ended, or was never made. `why` is an errno name such as `ENOENT`, or our own text. */
export class MonitorLost extends Error {
  override readonly name = 'MonitorLost'
  readonly why: string

  constructor(why: string) {
    super(`control connection lost: ${why}`)
    this.why = why
  }

  /** Whether only the unit of the monitor shows what the loss means. */
  get meansSilent(): boolean {
    return MEANS_SILENT.has(this.why)
  }
}

/** Returns the loss of a connection because of an error: with its errno, or else with its message. */
export const lostBy = (error: unknown): MonitorLost => {
  const { code, message } = error as NodeJS.ErrnoException
  return new MonitorLost(code ?? message)
}

/** Returns what a caller of the port gets for an error of a monitor. */
export function faultOf(error: unknown, doing: string, refused: FaultCode = 'monitor_refused'): unknown {
  if (error instanceof MonitorRefusal) return new HostFault(refused, doing, { cause: error })
  if (error instanceof MonitorLost) return new HostFault('monitor_unreachable', doing, { cause: error })
  return error
}

/** Returns what a caller of the port gets for an error of a monitor that restores a guest. */
export function restoreFaultOf(error: unknown, id: VmId): unknown {
  if (!(error instanceof MonitorLost || error instanceof MonitorRefusal)) return error
  const where = `\`journalctl --unit=${unitName(id)}\` has its reason`
  const doing = `restoring VM ${id}: its monitor could not read it; ${where}`
  return new HostFault('restore_failed', doing, { cause: error })
}
