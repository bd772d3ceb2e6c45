import type { StoreCheck } from '../host/systemd/descriptor-store.ts'
import type { Log } from '../log/log.ts'
import type { ConsoleCensus } from '../owners/console-census.ts'

export type Adoption = {
  readonly adopted: number
  readonly check: StoreCheck
  readonly census: ConsoleCensus
}

/** What an operator looks for after every start: whether all that runs was taken over, and what to do where it was not. */
export function reportAdoption({ adopted, check, census }: Adoption, log: Log): void {
  const report = {
    descriptor_store_available: check.available,
    adopted_console_count: adopted,
    running_unit_count: census.runningUnits,
  }
  if (check.available) log.info(report, 'consoles adopted')
  else log.error({ ...report, because: check.because, mend: check.mend }, 'no VM can be started')
  if (census.unprotected.length === 0) return
  log.warn(
    { vm_ids: census.unprotected, mend: 'stop each of them and start it again, through the API' },
    'running VMs have no stored console: it cannot be watched, and they may end with the daemon',
  )
}
