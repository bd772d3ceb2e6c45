import type { components } from './schema.d.ts'

type Vm = components['schemas']['Vm']

export const isSettled = ({ generations }: Pick<Vm, 'generations'>): boolean =>
  generations.observed === generations.desired

/** Returns whether an error stands, or the VM failed. */
export const hasError = ({ observed }: Vm): boolean =>
  observed.error !== undefined || observed.state === 'failed'

/** Returns whether the guest ended by itself and rests, though it is desired to run. */
export const isEnded = (vm: Vm): boolean =>
  isSettled(vm) && vm.observed.state === 'stopped' && vm.desired.power !== 'stopped'

/** Returns the addresses to which packets for the guest can be routed. */
export const addressesOf = ({ desired: { network } }: Vm): readonly string[] =>
  [network?.ipv4_address, network?.ipv6_address].filter((address) => address !== undefined)

/** Returns labels as they are given on a command line. */
export const labelsOf = ({ labels }: Vm): readonly string[] =>
  Object.entries(labels).map(([key, value]) => `${key}=${value}`)
