import { changeVm, DRY_RUN_OPTION, dryRunQuery } from './change.ts'
import { eachNamed } from '../each.ts'
import { WAIT_OPTIONS } from './wait-for-vm.ts'
import type { Command } from '../command.ts'

export const removeCommand: Command = {
  words: ['vm', 'rm'],
  summary: 'delete VMs with their disks',
  description: 'Stops them hard and removes everything of them from the host. There is no way back.',
  operand: { placeholder: 'NAME', many: true, completes: 'vm' },
  options: [...WAIT_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --wait', 'returns when nothing of it is left'],
    ['web-1 web-2', 'returns at once; the host follows'],
  ],
  run: (context) =>
    eachNamed(context, (id) => {
      const params = { path: { id }, query: dryRunQuery(context) }
      return changeVm(context, context.client().DELETE('/v1/vms/{id}', { params }), { goal: 'gone' })
    }),
}
