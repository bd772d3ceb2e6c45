import { exitStatus } from '../exit-status.ts'
import { settledWords } from './change.ts'
import { eachNamed } from '../each.ts'
import { waitForVm, waitOnlyOptions } from './wait-for-vm.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Command } from '../command.ts'
import type { Goal } from './wait-for-vm.ts'

/** States that a VM can stay in. */
const RESTS = [
  'running',
  'sleeping',
  'paused',
  'stopped',
] as const satisfies readonly Vm['observed']['state'][]

const GOALS = [...RESTS, 'gone']

export const waitCommand: Command = {
  words: ['vm', 'wait'],
  summary: 'wait until VMs are as desired, showing how they get there',
  description:
    'Ends when the two generations meet, or when a VM under deletion is gone. To sleep and to wake changes nothing that is ' +
    'desired: --for waits for that. After a deletion use --for gone: it ends well also if the VM is gone already. An error of ' +
    'the daemon is shown and waited out, since the daemon goes on trying; --fail-on-error ends there.',
  operand: { placeholder: 'NAME', many: true, completes: 'vm' },
  options: [
    {
      name: 'for',
      value: 'STATE',
      help: 'until it is as desired and in this state, or until it is gone',
      completes: GOALS,
    },
    ...waitOnlyOptions,
  ],
  examples: [
    ['web-1', 'until it is as desired, fifteen minutes at most'],
    ['web-1 --timeout 2m --fail-on-error', 'in a script: status 3 after two minutes, 1 at the first error'],
    ['web-1 --for sleeping', 'until it is idle for long enough, and saved'],
    ['web-1 --for gone', 'after vmhostctl vm rm: until nothing of it is left'],
    ['web-1 --timeout 0', 'whether it is as desired now: status 0 or 3'],
  ],
  run: (context) =>
    eachNamed(context, async (id) => {
      const goal = goalOf(context.given.text('for'))
      const vm = await waitForVm(context, id, goal, { wasThere: goal === 'gone' })
      if (context.json) context.answer(vm ?? { id, gone: true })
      else context.say(vm === undefined ? `${id}: gone` : settledWords(vm))
      return exitStatus.done
    }),
}

function goalOf(text: string | undefined): Goal {
  if (text === 'gone') return 'gone'
  const state = RESTS.find((name) => name === text)
  return state === undefined ? 'settled' : { state }
}
