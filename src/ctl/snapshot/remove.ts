import { done } from '../../client/api-client.ts'
import { eachNamed } from '../each.ts'
import { exitStatus } from '../exit-status.ts'
import type { Command } from '../command.ts'

export const removeCommand: Command = {
  words: ['snapshot', 'rm'],
  summary: 'delete snapshots',
  description:
    'What the host has of them, with the parts that stay staged. An object that is completed stays in the store; an upload that is not ends, and must be aborted there.',
  operand: { placeholder: 'ID', many: true, completes: 'snapshot' },
  options: [],
  examples: [['nightly-1 nightly-2', 'also where they are gone already']],
  run: (context) =>
    eachNamed(context, async (id) => {
      const params = { path: { id } }
      const { response } = await context.client().GET('/v1/snapshots/{id}', { params })
      await done(context.client().DELETE('/v1/snapshots/{id}', { params }))
      if (context.json) context.answer({ id, gone: true })
      else context.say(response.status === 404 ? `${id}: there was none` : `${id}: gone`)
      return exitStatus.done
    }),
}
