import type { components } from '../../client/schema.d.ts'
import type { Colour } from '../text.ts'

export type Maintenance = components['schemas']['Maintenance']

/** Returns the state of the host on one line, as "cordoned since 2030-01-01 12:00:00Z: new kernel". */
export function maintenanceWords({ state, since, reason }: Maintenance): string {
  const time = since === undefined ? '' : ` since ${since.slice(0, 19).replace('T', ' ')}Z`
  return `${state}${time}${reason === undefined ? '' : `: ${reason}`}`
}

export const maintenanceColour = ({ state }: Maintenance): Colour | undefined =>
  state === 'schedulable' ? undefined : 'yellow'
