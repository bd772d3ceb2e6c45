import { exitStatus } from '../exit-status.ts'
import { settledWords } from './change.ts'
import { eachVm } from './each.ts'
import { waitForVm, waitOnlyOptions } from './wait.ts'
import type { Command } from '../command.ts'

export const waitCommand: Command = {
  words: ['vm', 'wait'],
  summary: 'wait until VMs are as desired, showing how they get there',
  description:
    'Ends when the two generations meet, or when a VM under deletion is gone. An error of the daemon is shown and waited ' +
    'out, since the daemon goes on trying; --fail-on-error ends there.',
  operand: { placeholder: 'NAME', many: true, completes: 'vm' },
  options: waitOnlyOptions,
  examples: [
    ['web-1', 'until it is as desired, fifteen minutes at most'],
    ['web-1 --timeout 2m --fail-on-error', 'in a script: status 3 after two minutes, 1 at the first error'],
    ['web-1 --timeout 0', 'whether it is as desired now: status 0 or 3'],
  ],
  run: (context) =>
    eachVm(context, async (id) => {
      const vm = await waitForVm(context, id, 'settled')
      if (context.json) context.answer(vm ?? { id, gone: true })
      else context.say(vm === undefined ? `${id}: gone` : settledWords(vm))
      return exitStatus.done
    }),
}
