import { causeFirst } from '../../client/cause-first.ts'
import { addressesOf, hasError, isEnded, isSettled, labelsOf } from '../../client/vm-words.ts'
import { showMib, showSpan } from '../../lib/shown-units.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time-units.ts'
import type { components } from '../../client/schema.d.ts'

export type Vm = components['schemas']['Vm']
export type ObservedState = Vm['observed']['state']

/** How a VM stands, for its colour: the word of its state is always beside it. */
export type Tone = 'bad' | 'busy' | 'good' | 'asleep' | 'off'

/** A VM as the list shows it: texts only, so that a row changes exactly when one of them does. */
export type Row = {
  readonly id: string
  readonly tone: Tone
  readonly state: ObservedState
  /** How long it is in this state, such as `3 h`. */
  readonly since: string
  /** The event that it waits for, or why it is not as desired; empty if there is nothing to say. */
  readonly note: string
  /** The whole error, its cause first; empty for a healthy VM. */
  readonly error: string
  readonly memory: string
  /** The part of the memory that is on the host now; empty if it is unknown. */
  readonly resident: string
  readonly traffic: string
  /** Time of the last traffic (RFC 3339); empty without any. */
  readonly trafficAt: string
  readonly addresses: string
  readonly labels: string
}

/** Facts that are not in the VM itself. */
export type Now = {
  /** Milliseconds since the epoch, by the clock of the host. */
  readonly nowMs: number
  /** Memory of running VMs on the host, in MiB. */
  readonly residentMib: ReadonlyMap<string, number>
}

export function rowOf(vm: Vm, { nowMs, residentMib }: Now): Row {
  const { id, desired, observed } = vm
  const { last_traffic_at: trafficAt = '' } = observed
  const resident = residentMib.get(id)
  return {
    id,
    tone: toneOf(vm),
    state: observed.state,
    since: coarseSpan(nowMs - Date.parse(observed.state_since)),
    note: noteOf(vm, nowMs),
    error: errorOf(vm),
    memory: showMib(desired.compute.memory_mib),
    resident: resident === undefined ? '' : `${showMib(resident)} resident`,
    traffic: trafficWords(vm, nowMs),
    trafficAt,
    addresses: addressesOf(vm).join(' '),
    labels: labelsOf(vm).join(' '),
  }
}

function toneOf(vm: Vm): Tone {
  const { state } = vm.observed
  if (hasError(vm)) return 'bad'
  if (!isSettled(vm) || vm.observed.waiting_for !== undefined) return 'busy'
  if (state === 'running') return 'good'
  return state === 'sleeping' ? 'asleep' : 'off'
}

/**
 * Returns the error with its code and how often it was met. The next attempt is not shown:
 * it would soon be in the past.
 */
function errorOf({ observed: { state, error, fault } }: Vm): string {
  if (error === undefined) return state === 'failed' ? 'The VM failed; its events say why.' : ''
  const words = fault === undefined ? '' : ` (${fault.code}, attempt ${fault.attempt})`
  return `${causeFirst(error)}${words}`
}

function noteOf(vm: Vm, nowMs: number): string {
  const { waiting_for: waitingFor, memory_queue: queue, stops_hard_at: hardAt, last_exit: exit } = vm.observed
  if (queue !== undefined)
    return `waits for memory: place ${queue.place}, ${showMib(queue.missing_mib)} missing`
  if (hardAt !== undefined) return `stops hard in ${showSpan(Date.parse(hardAt) - nowMs)}`
  if (waitingFor !== undefined) return `waits for ${waitingFor}`
  if (!isSettled(vm)) return hasError(vm) ? '' : 'a change is being applied'
  return isEnded(vm) ? (exit?.detail ?? 'the guest ended by itself') : ''
}

function trafficWords({ desired, observed }: Vm, nowMs: number): string {
  if (observed.last_traffic_at !== undefined) return agoWords(nowMs - Date.parse(observed.last_traffic_at))
  return desired.network === undefined ? 'no network' : 'none yet'
}

/** The last traffic of a running VM may be known a minute late, so anything newer than this is the same. */
const NEW_MS = 2 * MINUTE_MS

/** Shows a span in one unit, which a table can be read down by: `1 min`, `90 min`, `5 h`, `12 d`. */
export function coarseSpan(ms: number): string {
  if (ms < MINUTE_MS) return 'under 1 min'
  if (ms < 2 * HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`
  if (ms < 2 * DAY_MS) return `${Math.floor(ms / HOUR_MS)} h`
  return `${Math.floor(ms / DAY_MS)} d`
}

/** Says how long ago something was. A time of the near future is one of another clock, and so is now. */
export const agoWords = (ms: number): string => (ms < NEW_MS ? 'just now' : `${coarseSpan(ms)} ago`)
