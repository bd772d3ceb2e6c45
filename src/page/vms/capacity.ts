import { limits } from '../../config/limits.ts'
import { showCores, showMib } from '../../lib/shown-units.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { components } from '../../client/schema.d.ts'

export type Sync = components['schemas']['Sync']

/** One resource of the host. */
export type Meter = {
  readonly name: string
  /** The part that is committed, from 0 to 1. */
  readonly part: number
  /** How much is committed, of how much. */
  readonly words: string
  /** The rest, and the figures that are measured now. */
  readonly detail: string
  readonly isFull: boolean
}

/** Part of what may be committed from which a resource is shown as full. */
const FULL_PART = 0.9

/** Part of a pool up to which its free space counts as none: guests can fill that within minutes. */
const NO_ROOM_PART = 0.02

export function metersOf({ cpu, memory, disks }: Sync['capacity']): readonly Meter[] {
  return [
    {
      ...meter('Memory', memory),
      detail: [
        leftWords(memory),
        ...residentWords(memory),
        `${showMib(memory.available_mib)} available on the host`,
      ].join(' · '),
    },
    cpuMeter(cpu),
    ...disks.map((disk) => ({
      ...meter(disks.length === 1 ? 'Disk' : `Disk ${disk.pool}`, disk),
      ...(hasNoRoom(disk) ? { isFull: true } : {}),
      detail: `${leftWords(disk)} · ${showMib(disk.available_mib)} free in the pool`,
    })),
  ]
}

type Disk = Sync['capacity']['disks'][number]

/** Disks are sparse, and others may write to the pool too: what is committed does not show what is free. */
const hasNoRoom = ({ available_mib: available, total_mib: total }: Disk): boolean =>
  available <= total * NO_ROOM_PART

type Committed = { readonly committed_mib: number; readonly allocatable_mib: number }

function meter(name: string, { committed_mib: committed, allocatable_mib: allocatable }: Committed) {
  const part = partOf(committed, allocatable)
  return {
    name,
    part: Math.min(1, part),
    words: `${showMib(committed)} of ${showMib(allocatable)} committed`,
    isFull: part >= FULL_PART,
  }
}

/** A host may commit more cores than it has, because VMs share them. */
function cpuMeter({
  committed_millicores: committed,
  total_millicores: total,
}: Sync['capacity']['cpu']): Meter {
  const part = partOf(committed, total)
  return {
    name: 'CPU',
    part: Math.min(1, part),
    words: `${showCores(committed)} of ${coresWords(total)} committed`,
    detail: part > 1 ? `${part.toFixed(1)} times the cores, which VMs share` : 'shared by all VMs',
    isFull: false,
  }
}

const residentWords = ({ resident_mib: mib = 0 }: Sync['capacity']['memory']): readonly string[] =>
  mib === 0 ? [] : [`${showMib(mib)} resident in VMs`]

/** Returns the part that some is of all. Without anything to commit, something is everything. */
function partOf(some: number, all: number): number {
  if (all > 0) return some / all
  return some > 0 ? 1 : 0
}

const leftWords = ({ committed_mib: committed, allocatable_mib: allocatable }: Committed): string =>
  committed > allocatable
    ? `${showMib(committed - allocatable)} too much`
    : `${showMib(allocatable - committed)} left`

const coresWords = (millicores: number): string =>
  `${showCores(millicores)} ${millicores === 1000 ? 'core' : 'cores'}`

/** Returns what of the host itself needs attention, a sentence each; empty if all is well. */
export function noticesOf({ host, capacity, consoles, snapshots }: Sync): readonly string[] {
  const { waiting_vms: waiting } = capacity.memory
  const failed = snapshots.filter(({ error }) => error !== undefined).length
  const { places_free: places, places_total: placesAll, unprotected } = consoles
  return [
    ...maintenanceNotices(host),
    ...(host.faults ?? []).map(({ detail }) => `This host has a fault: ${detail}.`),
    ...certificateNotices(host),
    ...poolNotices(capacity.disks),
    ...(waiting === 0 ? [] : [`${count(waiting, 'VM waits', 'VMs wait')} for memory.`]),
    ...(placesAll > 0 && places === 0
      ? ['No console place is free: no further VM can start or wake on this host.']
      : []),
    ...(unprotected.length === 0
      ? []
      : [`These VMs would end with the daemon; stop and start each once: ${unprotected.join(', ')}.`]),
    ...(failed === 0 ? [] : [`${count(failed, 'snapshot has', 'snapshots have')} an error.`]),
  ]
}

const count = (number: number, one: string, many: string): string => `${number} ${number === 1 ? one : many}`

/** Says that the host takes no more, and why. */
const maintenanceNotices = ({
  maintenance: { observed_state: state, reason },
}: Sync['host']): readonly string[] =>
  state === 'schedulable' ? [] : [`This host is ${state}${reason === undefined ? '' : `: ${reason}`}.`]

const poolNotices = (disks: readonly Disk[]): readonly string[] =>
  disks.filter(hasNoRoom).map(({ pool, available_mib: available }) => {
    const name = disks.length === 1 ? 'The pool' : `The pool ${pool}`
    return `${name} has only ${showMib(available)} free. Guests that write to a full pool are paused or get errors.`
  })

function certificateNotices({ certificates, clock, revocation_list: list }: Sync['host']): readonly string[] {
  const nowMs = Date.parse(clock)
  const ends = certificates.flatMap(({ name, not_after: end }) => {
    const days = Math.floor((Date.parse(end) - nowMs) / DAY_MS)
    if (days > limits.certificateWarningDays) return []
    const what = `The certificate of the ${name.replaceAll('_', ' ')}`
    return [
      days < 0
        ? `${what} has expired.`
        : `${what} expires in ${count(days, 'day', 'days')}, on ${end.slice(0, 10)}.`,
    ]
  })
  const due = list?.next_update
  return due !== undefined && Date.parse(due) < nowMs
    ? [...ends, `A newer revocation list was due on ${due.slice(0, 10)}.`]
    : ends
}
