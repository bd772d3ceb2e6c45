import { showMib } from '../../lib/shown-units.ts'
import { MIB } from '../../lib/byte-units.ts'
import { spanSince } from '../text.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Fact } from '../text.ts'

/** Returns facts about a VM that moves to another host, or came from one. */
export const moveFacts = (vm: Vm, nowMs: number): readonly Fact[] => [
  ['leaves', leavingWords(vm, nowMs)],
  ['came', comingWords(vm)],
]

function leavingWords({ desired, observed }: Vm, nowMs: number): string | undefined {
  const { migration } = observed
  if (migration === undefined) return undefined
  const { migration_id: id, stage, stage_since: since, withdrawn_because: because } = migration
  const span = spanSince(since, nowMs)
  if (stage === 'withdrawn')
    return `no: ${id} was withdrawn ${span} ago${because === undefined ? '' : ` (${because})`}`
  const offer = desired.migration
  const to = offer === undefined ? '' : ` to ${offer.node}`
  if (stage === 'released') return `it has left${to} by ${id}, ${span} ago`
  const until = offer === undefined ? '' : `, until ${offer.expires_at}`
  return `${stage}${to} by ${id} for ${span}${until}`
}

function comingWords({ observed: { arrival } }: Vm): string | undefined {
  if (arrival === undefined) return undefined
  const { migration_id: id, stage, progress, refused_because: because } = arrival
  const copied =
    progress === undefined
      ? ''
      : `, round ${progress.round}: ${showMib(Math.floor(progress.copied_bytes / MIB))} of ${showMib(Math.ceil(progress.total_bytes / MIB))}`
  return `by ${id}: ${stage}${because === undefined ? '' : ` (${because})`}${copied}`
}
