import { answered } from '../../client/api-client.ts'
import { exitStatus } from '../exit-status.ts'
import { ago, inWords, renderFacts } from '../text.ts'
import { showMib } from '../../lib/shown-units.ts'
import { printable } from '../../lib/text.ts'
import {
  doneWords,
  errorWords,
  lackingWords,
  phaseWords,
  statusColour,
  urlsAdvice,
} from './snapshot-words.ts'
import type { Snapshot } from '../../client/api-client.ts'
import type { Command } from '../command.ts'
import type { Paint } from '../text.ts'

export const getCommand: Command = {
  words: ['snapshot', 'get'],
  summary: 'show one snapshot',
  description:
    'Shows the progress of the snapshot, what it waits for, and what was captured. --json prints the whole resource as the ' +
    'API has it.',
  operand: { placeholder: 'ID', completes: 'snapshot' },
  options: [],
  examples: [
    ['nightly-1', 'for reading'],
    ['nightly-1 --json | jq -r .sha256', 'the digest to create a VM with'],
  ],
  run: async ({ client, given, print, paint, shell }) => {
    const path = { id: given.operand }
    const { data } = await answered(client().GET('/v1/snapshots/{id}', { params: { path } }))
    print(data, () => renderSnapshot(data, shell.nowMs(), paint))
    return exitStatus.done
  },
}

const CONSISTENCY_WORDS: Readonly<Record<NonNullable<Snapshot['consistency']>, string>> = {
  file_system: 'file systems were flushed and frozen by an agent in the guest',
  crash: 'as a power failure would have left it',
}

/** Renders a snapshot for people. */
export function renderSnapshot(snapshot: Snapshot, nowMs: number, paint: Paint): string {
  const { size_mib: size, stored_size_mib: stored, consistency, captured_at: captured } = snapshot
  const lacking = lackingWords(snapshot)
  const since = (time: string): string => `${time}, ${ago(time, nowMs)}`
  const facts = renderFacts(
    [
      ['VM', snapshot.vm_id],
      ['status', statusWords(snapshot), statusColour(snapshot)],
      ['done', `${doneWords(snapshot)}, ${snapshot.progress.percent} %`],
      ['parts', partsWords(snapshot)],
      ['needs URLs', lacking, 'yellow'],
      ['', lacking === undefined ? undefined : urlsAdvice(snapshot), 'yellow'],
      ['waits for', snapshot.waiting_for, 'yellow'],
      ['error', errorWords(snapshot, nowMs), snapshot.status === 'failed' ? 'red' : 'yellow'],
      ['size', size === undefined ? undefined : showMib(size)],
      ['stored', stored === undefined ? undefined : showMib(stored)],
      ['staged', size === undefined ? undefined : stagedWords(snapshot)],
      ['sha256', snapshot.sha256],
      ['captured', captured === undefined ? undefined : since(captured)],
      ['paused for', snapshot.paused_ms === undefined ? undefined : `${snapshot.paused_ms} ms`],
      ['consistency', consistency === undefined ? undefined : inWords(consistency, CONSISTENCY_WORDS)],
      ['activity', since(snapshot.last_activity_at)],
      ['created', since(snapshot.created_at)],
    ],
    paint,
  )
  return `${paint(printable(snapshot.id), 'bold')}\n${facts}`
}

function statusWords(snapshot: Snapshot): string {
  const { status } = snapshot
  const phase = phaseWords(snapshot)
  return phase === status ? status : `${status}: ${phase}`
}

const stagedWords = ({ staged_mib: staged }: Snapshot): string =>
  staged === 0 ? 'nothing' : `${showMib(staged)} on the host`

const partsWords = ({ parts: { part_size_mib: size, packed, sent } }: Snapshot): string =>
  `of ${showMib(size)}: ${packed} compressed, ${sent} sent`
