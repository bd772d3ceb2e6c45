import { showSpan } from '../../lib/shown-units.ts'
import { wakeReasonWords } from '../vm/vm-words.ts'
import type { HostEvent } from '../../client/events.ts'
import type { Colour } from '../text.ts'

type Packet = NonNullable<HostEvent['packet']>

/** Returns the time of an event in UTC, to the second. */
export const timeWords = ({ at }: HostEvent): string => `${at.slice(0, 19).replace('T', ' ')}Z`

/** Says in words what happened. */
export function eventWords(event: HostEvent): string {
  const { kind, from = '?', to = '?', generation, detail = '', code, step, snapshot_id: snapshot } = event
  switch (kind) {
    case 'vm_created':
      return 'created'
    case 'vm_deleted':
      return 'deleted'
    case 'vm_requested':
      return `${requestWords(event)} (generation ${generation})`
    case 'vm_reached':
      return `as desired (generation ${generation})`
    case 'vm_state':
      return `${from} → ${to}`
    case 'vm_exit':
      return `${detail}, ${showSpan((event.ran_seconds ?? 0) * 1000)} after it started or woke`
    case 'vm_stop':
      return `stopped, ${event.how}`
    case 'vm_waking':
      return `waking ${wakeWords(event)}`
    case 'vm_woken':
      return `awake after ${event.duration_ms} ms${heldWords(event)}`
    case 'vm_fault':
      return `${step}: ${detail} (${code})`
    case 'vm_fault_ended':
      return `${step} no longer fails (${code})`
    case 'vm_migration':
      return migrationWords(event)
    case 'snapshot_created':
      return `snapshot ${snapshot}: created`
    case 'snapshot_state':
      return `snapshot ${snapshot}: ${from} → ${to}${detail === '' ? '' : `: ${detail}`}`
    case 'snapshot_deleted':
      return `snapshot ${snapshot}: deleted`
    case 'host_maintenance':
      return `host: ${from} → ${to}${detail === '' ? '' : `: ${detail}`}`
    case 'certificate_ends_soon':
      return `${certificateWords(event)} ends soon: ${event.not_after}`
    case 'certificate_ended':
      return `${certificateWords(event)} has ended: ${event.not_after}`
    case 'certificate_replaced':
      return `${certificateWords(event)}: replaced, ends ${event.not_after}`
    case 'revocation_list_replaced':
      return `${listWords(event)}: replaced, ${event.revoked} revoked`
    case 'revocation_list_overdue':
      return `${listWords(event)}: overdue since ${event.next_update}`
    case 'admission_refused':
      return `refused: ${detail} (${code})`
    default:
      return otherWords(event)
  }
}

export function eventColour({ kind, to }: HostEvent): Colour | undefined {
  if (kind === 'vm_fault' || kind === 'admission_refused' || to === 'failed') return 'red'
  if (kind === 'certificate_ended' || kind === 'revocation_list_overdue') return 'red'
  if (kind === 'vm_exit' || kind === 'certificate_ends_soon') return 'yellow'
  return kind === 'vm_reached' || kind === 'vm_fault_ended' ? 'green' : undefined
}

const wakeWords = ({ reason = '?', packet }: HostEvent): string =>
  reason === 'traffic' ? `for traffic${packetWords(packet)}` : wakeReasonWords(reason)

function requestWords({ deletes, due, stops, power, changes = [] }: HostEvent): string {
  if (deletes === true) return due === true ? 'deletion due by the exit policy' : 'deletion requested'
  if (stops === true) return `stop of the guest requested, power stays ${power}`
  const others = changes.filter((name) => name !== 'power' && name !== 'migration')
  const words = [
    ...(changes.includes('power') || changes.length === 0 ? [`power ${power}`] : []),
    ...(others.length === 0 ? [] : [`another ${others.join(', ')}`]),
    // The event does not say whether an offer was made or withdrawn.
    ...(changes.includes('migration') ? ['a move or its end'] : []),
  ]
  return `${words.join(' and ')} requested`
}

function packetWords(packet: Packet | undefined): string {
  if (packet === undefined) return ''
  const { protocol, source, source_port, destination, destination_port } = packet
  return `: ${protocol} ${endpoint(source, source_port)} → ${endpoint(destination, destination_port)}`
}

function endpoint(address: string, port: number | undefined): string {
  if (port === undefined) return address
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

function heldWords({ held_packets: held = 0, dropped_packets: dropped = 0 }: HostEvent): string {
  const parts = [...(held > 0 ? [`${held} held`] : []), ...(dropped > 0 ? [`${dropped} dropped`] : [])]
  return parts.length === 0 ? '' : `, packets: ${parts.join(', ')}`
}

function migrationWords({ side, migration_id: id, node, from, to, because }: HostEvent): string {
  const way = side === 'source' ? `leaves for ${node}` : 'comes from another host'
  const stage = from === undefined ? to : `${from} → ${to}`
  // Of a withdrawal on request the reason has the name of the stage.
  const why = to === because ? 'by request' : because
  return `${way} (${id}): ${stage}${why === undefined ? '' : `, ${why}`}`
}

const certificateWords = ({ certificate, name, serial }: HostEvent): string =>
  `certificate ${certificate}${serial === undefined ? '' : ` ${name} (${serial})`}`

const listWords = ({ listener, issuer }: HostEvent): string => `revocation list of ${issuer} (${listener})`

const COMMON: readonly string[] = ['sequence', 'at', 'kind', 'vm_id', 'operation_id']

/** Shows the members of a kind that this program does not know. */
const otherWords = (event: HostEvent): string =>
  Object.entries(event)
    .filter(([name]) => !COMMON.includes(name))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')
