import type { Vm } from '../../client/api-client.ts'
import type { Colour } from '../text.ts'

export const isSettled = ({ generations }: Vm): boolean => generations.observed === generations.desired

/** Returns whether the guest is saved or is being restored, or an error prevents its restore. */
export const isSavedOrWaking = ({ observed: { state, saved_state: saved } }: Vm): boolean =>
  state === 'sleeping' || state === 'waking' || saved !== undefined

/** Shows `3`, or `2 of 3` while the host is on its way. */
export const generationWords = ({ generations: { desired, observed } }: Vm): string =>
  desired === observed ? String(desired) : `${observed} of ${desired}`

export function stateColour(vm: Vm): Colour | undefined {
  const { state, error } = vm.observed
  if (state === 'failed' || error !== undefined) return 'red'
  if (!isSettled(vm)) return 'yellow'
  if (state === 'sleeping') return 'dim'
  return state === 'running' ? 'green' : undefined
}

/** Returns one line about the progress of a VM. */
export function progressWords(vm: Vm): string {
  const { state, waiting_for: waitingFor } = vm.observed
  const waiting = waitingFor === undefined ? '' : `, waiting for ${waitingFor}`
  return `${vm.id}: ${state}${waiting}, generation ${generationWords(vm)}`
}

/** Returns the error in `observed`, with the time of the next attempt; undefined for a healthy VM. */
export function errorWords({ observed }: Vm, nowMs: number): string | undefined {
  const { error, fault } = observed
  if (error === undefined || fault === undefined) return error
  const { attempt, next_attempt_at: next } = fault
  if (next === undefined) return `${error} (${fault.code}; only a change helps)`
  const seconds = Math.max(0, Math.ceil((Date.parse(next) - nowMs) / 1000))
  return `${error} (${fault.code}, attempt ${attempt}, next in ${seconds} s)`
}
