import { answered } from '../../client/api-client.ts'
import { exitStatus } from '../exit-status.ts'
import type { Command } from '../command.ts'

export const planCommand: Command = {
  words: ['vm', 'plan'],
  summary: 'show what the daemon will do next for a VM, and why',
  description:
    'From a fresh look at the host, step by step with the reasons, or what it waits for. Changes nothing.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [],
  examples: [
    ['web-1', 'when it is not as desired and you want to know why'],
    ['web-1 --json | jq -r .outcome', 'settled, act, wait or blocked'],
  ],
  run: async ({ client, given, json, answer, say }) => {
    const path = { id: given.operand }
    const { data: plan } = await answered(client().GET('/v1/vms/{id}/plan', { params: { path } }))
    if (json) answer(plan)
    else say(plan.text.trimEnd())
    return exitStatus.done
  },
}
