import { showMib, showSpan } from '../units.ts'
import type { Vm } from '../../client/api-client.ts'

type LastWake = NonNullable<Vm['observed']['last_wake']>

/** Says when a VM sleeps, to be put behind its shape; empty if it never does. */
export function idleWords({ desired: { compute, network } }: Vm): string {
  const seconds = compute.sleep_after_idle_seconds
  if (seconds === 0) return ''
  return network === undefined
    ? ', never sleeps, since without network nothing could wake it'
    : `, sleeps after ${showSpan(seconds * 1000)} without traffic`
}

/** The same for a column; for a VM that sleeps, the size of its saved state. */
export function sleepCell({ desired, observed }: Vm): string {
  const { saved_state: saved, flapping } = observed
  if (saved !== undefined) return `${showMib(saved.size_mib)} saved`
  if (flapping !== undefined) return `after ${showSpan(flapping.sleeps_after_idle_seconds * 1000)}, flaps`
  const seconds = desired.compute.sleep_after_idle_seconds
  return seconds === 0 || desired.network === undefined ? '' : `after ${showSpan(seconds * 1000)}`
}

type Fact = readonly [name: string, value: string | undefined, colour?: 'yellow']

/** Returns facts about a VM's sleeps. */
export function sleepFacts({ observed }: Vm, nowMs: number): readonly Fact[] {
  const { saved_state: saved, last_traffic_at: traffic, last_wake: wake, flapping } = observed
  const ago = (time: string): string => `${showSpan(nowMs - Date.parse(time))} ago`
  return [
    [
      'saved',
      saved &&
        `${ago(saved.saved_at)}, ${showMib(saved.size_mib)} for ${showMib(saved.memory_mib)} of memory`,
    ],
    ['last traffic', traffic && ago(traffic)],
    [
      'last wake',
      wake && `${ago(wake.at)}, ${REASONS[wake.reason]}, in ${wake.duration_ms} ms${packetWords(wake)}`,
    ],
    [
      'flapping',
      flapping &&
        `${flapping.short_sleeps} short sleeps in a row: it sleeps after ${showSpan(flapping.sleeps_after_idle_seconds * 1000)} now`,
      'yellow',
    ],
  ]
}

const REASONS: { readonly [R in LastWake['reason']]: string } = {
  traffic: 'by traffic',
  power: 'as it was asked to run',
  console: 'for a shell',
  sleep_disabled: 'because sleep was disabled',
  change: 'for a change',
}

function packetWords({ held_packets: held, dropped_packets: dropped }: LastWake): string {
  const kept = held === 0 ? '' : `, ${held} ${held === 1 ? 'packet' : 'packets'} held for it`
  return dropped === 0 ? kept : `${kept}, ${dropped} dropped`
}
