import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import type { StoreFact } from '../core/doctor/host-facts.ts'
import type { Log } from '../log/log.ts'
import type { ConsoleCensus } from '../owners/console/console-census.ts'
import type { Clock } from '../ports/clock.ts'

export type AdoptionOptions = {
  /** Number of console masters that an earlier daemon stored and this one took over. */
  readonly adopted: number
  /** This and `census` throw HostFault when systemd does not answer. */
  readonly check: () => Promise<StoreFact>
  readonly census: () => Promise<ConsoleCensus>
  readonly clock: Pick<Clock, 'after'>
  readonly log: Log
}

/**
 * Logs after a start whether all running consoles and VMs were taken over, and what to do if not. Resolves after the
 * first report. If systemd does not answer, that report has only what is known without it. A second one follows when
 * systemd answers, unless the signal aborts before.
 */
export async function reportAdoption(options: AdoptionOptions, signal: AbortSignal): Promise<void> {
  const fault = await report(options)
  if (fault === undefined) return
  const { adopted, log } = options
  const known = { descriptor_store_available: false, adopted_console_count: adopted }
  log.error({ ...known, error: fault }, 'descriptor store not checked')
  repeat(options, signal)
}

function repeat(options: AdoptionOptions, signal: AbortSignal): void {
  const again = async (): Promise<void> => {
    const fault = await report(options)
    if (fault !== undefined && !signal.aborted) repeat(options, signal)
  }
  const cancel = options.clock.after(limits.adoptionRecheckMs, () => void again())
  signal.addEventListener('abort', cancel, { once: true })
}

/** Returns the fault of a failed look; nothing is logged then. */
async function report({ adopted, check, census, log }: AdoptionOptions): Promise<HostFault | undefined> {
  try {
    const [store, seen] = await Promise.all([check(), census()])
    notify({ adopted, store, seen }, log)
    return undefined
  } catch (error) {
    if (error instanceof HostFault) return error
    throw error
  }
}

type Seen = { readonly adopted: number; readonly store: StoreFact; readonly seen: ConsoleCensus }

function notify({ adopted, store, seen }: Seen, log: Log): void {
  const { runningUnits, protected: kept, unprotected } = seen
  // A VM that is about to restart after an exit has a master and no unit: it counts on neither side.
  const counts = {
    descriptor_store_available: store.available,
    adopted_console_count: kept,
    running_unit_count: runningUnits,
    inherited_console_count: adopted,
  }
  if (store.available) log.info(counts, 'consoles adopted')
  else log.error({ ...counts, because: store.because, remedy: store.remedy }, 'no VM can be started')
  if (unprotected.length === 0) return
  log.warn(
    { vm_ids: unprotected, remedy: 'stop each of them and start it again, through the API' },
    'running VMs have no stored console: it cannot be watched, and they may end with the daemon',
  )
}
