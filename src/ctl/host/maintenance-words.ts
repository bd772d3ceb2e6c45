import type { components } from '../../client/schema.d.ts'
import type { Colour } from '../text.ts'

export type Maintenance = components['schemas']['Maintenance']

type State = Pick<Maintenance, 'observed_state' | 'since' | 'reason'>

/** Returns the state of the host on one line, as "cordoned since 2030-01-01 12:00:00Z: new kernel". */
export function maintenanceWords({ observed_state: state, since, reason }: State): string {
  const time = since === undefined ? '' : ` since ${since.slice(0, 19).replace('T', ' ')}Z`
  return `${state}${time}${reason === undefined ? '' : `: ${reason}`}`
}

export const maintenanceColour = ({ observed_state: state }: State): Colour | undefined =>
  state === 'schedulable' ? undefined : 'yellow'

/** Returns how many guests are left, and which of them come to rest now. */
export function leftWords({ left }: Pick<Maintenance, 'left'>): string {
  if (left.length === 0) return 'no guest is left'
  const now = left.filter(({ under_way: underWay }) => underWay).map(({ vm_id: id }) => id)
  const count = `${left.length} ${left.length === 1 ? 'guest is' : 'guests are'} left`
  return now.length === 0 ? count : `${count}, now ${now.join(', ')}`
}
