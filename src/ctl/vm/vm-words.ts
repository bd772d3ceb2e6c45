import { showMib, showSpan } from '../../lib/shown-units.ts'
import { attemptWords } from '../../client/cause-first.ts'
import { addressesOf, hasError, isSettled } from '../../client/vm-words.ts'
import { ago, inWords, spanSince } from '../text.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Colour, Fact } from '../text.ts'

type Fault = Vm['observed']['fault']

/** Returns whether two faults are one failure. Another failure with the same words has another time or attempt. */
export const isSameFault = (one: Fault, other: Fault): boolean =>
  one?.since === other?.since && one?.attempt === other?.attempt

/**
 * Returns whether an error stands against what is desired now. One from before the newest change does not count, nor
 * does the fault that the VM had (`earlier`) when the daemon was asked to try again.
 */
export function isInTrouble({ observed: { error, fault }, generations }: Vm, earlier?: Fault): boolean {
  if (error === undefined) return false
  // Other faults of the last look do not say for which generation.
  // What keeps a VM from what is desired is a fault of its own.
  if (fault === undefined) return isSettled({ generations })
  return fault.generation >= generations.desired && !isSameFault(fault, earlier)
}

/** Returns whether the guest is saved or is being restored, or an error prevents its restore. */
export const isSavedOrWaking = ({ observed: { state, saved_state: saved } }: Vm): boolean =>
  state === 'sleeping' || state === 'waking' || saved !== undefined

/** Shows `3`, or `2 of 3` while the host is on its way. */
export const generationWords = ({ generations: { desired, observed } }: Vm): string =>
  desired === observed ? String(desired) : `${observed} of ${desired}`

export function stateColour(vm: Vm): Colour | undefined {
  const { state } = vm.observed
  if (hasError(vm)) return 'red'
  if (!isSettled(vm)) return 'yellow'
  if (state === 'sleeping') return 'dim'
  return state === 'running' ? 'green' : undefined
}

/** Returns one line about the progress of a VM. */
export function progressWords(vm: Vm): string {
  const { state } = vm.observed
  const waitingFor = waitWords(vm)
  const waiting = waitingFor === undefined ? '' : `, waiting for ${waitingFor}`
  return `${vm.id}: ${state}${waiting}, generation ${generationWords(vm)}`
}

/** Says what a VM waits for, and its place in the queue for memory. */
export function waitWords({ observed }: Vm): string | undefined {
  const { waiting_for: waitingFor, memory_queue: queue } = observed
  if (queue === undefined) return waitingFor
  return `${waitingFor} (place ${queue.place}, ${showMib(queue.missing_mib)} missing)`
}

/** Returns the error in `observed`, with the time of the next attempt; undefined for a healthy VM. */
export function errorWords({ observed }: Vm, nowMs: number): string | undefined {
  const { error, fault } = observed
  if (error === undefined || fault === undefined) return error
  // The daemon looks again now and then, but nothing comes of it.
  if (fault.code === 'migration_refused') return `${error} (${fault.code})`
  const again = attemptWords(fault, nowMs)
  return `${error} (${fault.code}${again === undefined ? '; tried again only after a change' : `, ${again}`})`
}

type LastWake = NonNullable<Vm['observed']['last_wake']>

/** Says when a VM sleeps, to be put behind its shape; empty if it never does. */
export function idleWords(vm: Vm): string {
  const seconds = vm.desired.compute.sleep_after_idle_seconds
  if (seconds === 0) return ''
  return hasAddress(vm)
    ? `, sleeps after ${showSpan(seconds * 1000)} without traffic`
    : ', never sleeps, since without an address nothing could wake it'
}

/** Returns whether packets can be routed to the guest, and so wake it. */
const hasAddress = (vm: Vm): boolean => addressesOf(vm).length > 0

/** Returns the same for a column; for a VM that sleeps, the size of its saved state. */
export function sleepCell(vm: Vm): string {
  const { saved_state: saved, flapping } = vm.observed
  if (saved !== undefined) return `${showMib(saved.size_mib)} saved`
  if (flapping !== undefined) return `after ${showSpan(flapping.sleep_after_idle_seconds * 1000)}, flaps`
  const seconds = vm.desired.compute.sleep_after_idle_seconds
  return seconds > 0 && hasAddress(vm) ? `after ${showSpan(seconds * 1000)}` : ''
}

/** Says whether the guest is ready, and if it is known, why not. */
export function readyWords({ observed: { guest } }: Vm): string {
  if (guest?.not_ready !== undefined) return `not ready: ${guest.not_ready}`
  return guest?.ready_since === undefined ? 'not ready yet' : 'ready'
}

/** Returns facts about what runs in the guest. */
export function guestFacts({ desired, observed: { state, guest } }: Vm, nowMs: number): readonly Fact[] {
  const since = (time: string | undefined): string | undefined => time && `for ${spanSince(time, nowMs)}`
  const { agent_since: agent, ready_since: ready, not_ready: because } = guest ?? {}
  const unseen = desired.readiness !== undefined && state === 'running' ? 'no: not seen yet' : undefined
  return [
    ['agent', since(agent)],
    ['ready', because === undefined ? (since(ready) ?? unseen) : `no: ${because}`],
  ]
}

const STOPS = {
  hard: 'hard',
  graceful: 'by itself, as it was asked',
  deadline: 'hard, because it did not end in time',
} as const satisfies Record<NonNullable<Vm['observed']['last_stop']>['how'], string>

/** Says when a VM stops hard; undefined if its guest has no time to end. */
export function hardStopWords({ observed: { stops_hard_at: at } }: Vm, nowMs: number): string | undefined {
  if (at === undefined) return undefined
  return `in ${showSpan(Math.max(0, Date.parse(at) - nowMs))}, unless its guest ends first`
}

/** Returns facts about a VM's stops. */
export function stopFacts(vm: Vm, nowMs: number): readonly Fact[] {
  const { last_stop: last } = vm.observed
  const byHost = last?.reason === 'host_shutdown' ? ', when the host shut down' : ''
  return [
    ['stops hard', hardStopWords(vm, nowMs)],
    ['last stop', last && `${ago(last.at, nowMs)}, ${inWords(last.how, STOPS)}${byHost}`],
  ]
}

/** Returns facts about a VM's sleeps. */
export function sleepFacts({ observed, keep_awake_until: until }: Vm, nowMs: number): readonly Fact[] {
  const { saved_state: saved, last_traffic_at: traffic, last_wake: wake, flapping } = observed
  const leftMs = until === undefined ? 0 : Date.parse(until) - nowMs
  return [
    ['kept awake', leftMs > 0 ? `for ${showSpan(leftMs)}, until ${until}` : undefined],
    [
      'saved',
      saved &&
        `${ago(saved.saved_at, nowMs)}, ${showMib(saved.size_mib)} for ${showMib(saved.memory_mib)} of memory`,
    ],
    ['last traffic', traffic && ago(traffic, nowMs)],
    [
      'last wake',
      wake &&
        `${ago(wake.at, nowMs)}, ${wakeReasonWords(wake.reason)}, in ${wake.duration_ms} ms${packetWords(wake)}`,
    ],
    [
      'flapping',
      flapping &&
        `${flapping.short_sleeps} short sleeps in a row: it sleeps after ${showSpan(flapping.sleep_after_idle_seconds * 1000)} now`,
      'yellow',
    ],
  ]
}

/** Says why a guest wakes, to be put behind a verb. */
export const wakeReasonWords = (reason: string): string => inWords(reason, REASONS)

const REASONS: { readonly [R in LastWake['reason']]: string } = {
  traffic: 'by traffic',
  power: 'by a request for its power',
  console: 'for a shell',
  keep_awake: 'to stay awake for a while',
  sleep_disabled: 'because sleep was disabled',
  arrived: 'as it came from another host',
  withdrawn: 'because it did not move to another host',
  change: 'for a change',
  host_booted: 'after a boot of the host',
  maintenance: 'after the maintenance of the host',
}

function packetWords({ held_packets: held, dropped_packets: dropped }: LastWake): string {
  const kept = held === 0 ? '' : `, ${held} ${held === 1 ? 'packet' : 'packets'} held for it`
  return dropped === 0 ? kept : `${kept}, ${dropped} dropped`
}
