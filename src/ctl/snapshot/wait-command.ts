import { eachNamed } from '../each.ts'
import { showWaited } from './change.ts'
import { waitForSnapshot, waitOnlyOptions } from './wait-for-snapshot.ts'
import type { Command } from '../command.ts'

export const waitCommand: Command = {
  words: ['snapshot', 'wait'],
  summary: 'wait until snapshots are completed, showing how far they are',
  description:
    'Ends with status 1 where one has failed. Trouble that may pass, and URLs that are missing, are shown and waited out; ' +
    '--fail-on-error ends there.',
  operand: { placeholder: 'ID', many: true, completes: 'snapshot' },
  options: waitOnlyOptions,
  examples: [
    ['nightly-1', 'until the object is in the store, a day at most'],
    ['nightly-1 --timeout 0', 'whether it is completed now: status 0 or 3'],
    ['nightly-1 --fail-on-error --json', 'in a program: status 1 as soon as it needs something'],
  ],
  run: (context) => eachNamed(context, async (id) => showWaited(context, await waitForSnapshot(context, id))),
}
