import { isGone } from '../world/world.ts'
import { when } from './facet.ts'
import type { ConsoleState, World } from '../world/world.ts'
import type { Facet } from './facet.ts'
import type { Step } from './step.ts'

/** Stores the console before its unit starts. */
export const storeConsole = ({ kind }: ConsoleState): Step[] =>
  kind === 'stored' ? [] : [{ kind: 'console.ensure-master', because: `the console is ${kind}` }]

/**
 * Ends the console session at a stop; its output stays. Evaluated only if the unit is gone or goes in the same plan.
 */
export function endConsole(world: World): Facet {
  return when('console', world.console, ({ kind }) =>
    kind === 'absent' || kind === 'ended'
      ? []
      : [{ kind: 'console.end-session', because: 'the console session ends with the VM' }],
  )
}

/** Removes the console with its output. */
export function removeConsole(world: World, because: string): Facet {
  return when('console', world.console, ({ kind }) =>
    kind === 'absent' ? [] : [{ kind: 'console.remove', because }],
  )
}

/**
 * Stores the console of a running guest again, for example after an operator changed the daemon's unit and restored it.
 */
export const keepConsole = ({ console }: World): Facet =>
  console.known && console.value.kind === 'unstored'
    ? [{ kind: 'console.ensure-master', because: 'systemd does not have the console master any more' }]
    : []

/** Takes the terminal of a guest that has no unit. Its session is whole then, and continues when the guest does. */
export function detachConsole({ unit, console }: World, because: string): Facet {
  if (!unit.known || !isGone(unit.value) || !console.known) return []
  if (!['stored', 'unstored', 'unopened'].includes(console.value.kind)) return []
  return [{ kind: 'console.remove-master', because }]
}
