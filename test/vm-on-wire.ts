import { exampleSync, exampleVm } from '../src/api/wire/examples.ts'
import type { components } from '../src/client/schema.d.ts'

type Vm = components['schemas']['Vm']
type Sync = components['schemas']['Sync']

/** Changes of a VM; members of `observed`, `desired` and `generations` are added to those that it has. */
export type VmChanges = Partial<Omit<Vm, 'observed' | 'desired'>> & {
  readonly observed?: Partial<Vm['observed']>
  readonly desired?: Partial<Vm['desired']>
}

/** Returns a VM as an answer has it: it runs and is as desired. */
export const vmOnWire = (id: string, { observed, desired, ...rest }: VmChanges = {}): Vm => {
  const base = exampleVm as Vm
  return {
    ...base,
    id,
    labels: {},
    ...rest,
    desired: { ...base.desired, ...desired },
    observed: { ...base.observed, ...observed },
  }
}

/** Returns the host as an answer has it. */
export const syncOnWire = (): Sync => structuredClone(exampleSync) as Sync
