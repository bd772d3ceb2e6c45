import { usageError } from '../ctl-error.ts'
import { changeVm, DRY_RUN_OPTION, dryRunQuery, requireOne, fromPresent } from './change.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Command, Context, Option } from '../command.ts'

/** Parses `KEY=VALUE`. Throws a usage error. */
export function parseLabel(text: string, what: string): readonly [key: string, value: string] {
  const [, key, value] = /^([^=,]+)=([^=,]*)$/.exec(text) ?? []
  if (key === undefined || value === undefined) throw usageError(`${what} ${text} is not KEY=VALUE`)
  return [key, value]
}

const SET_OPTIONS: readonly Option[] = [
  { name: 'label', value: 'KEY=VALUE', many: true, help: 'add a label, or change it', check: parseLabel },
  { name: 'unlabel', value: 'KEY', many: true, help: 'take a label away' },
  {
    name: 'protected',
    value: 'YES-OR-NO',
    help: 'yes: refuse its deletion; no: allow it',
    completes: ['yes', 'no'],
  },
]

export const setCommand: Command = {
  words: ['vm', 'set'],
  summary: 'change labels and protection',
  description: 'What is not given stays. The host has nothing to do for it, so there is nothing to wait for.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [...SET_OPTIONS, DRY_RUN_OPTION],
  examples: [
    ['web-1 --label env=prod --unlabel canary', 'labels, for vmhostctl vm ls --label'],
    ['web-1 --protected no', 'before vmhostctl vm rm web-1'],
  ],
  run: async (context) => {
    const { given } = context
    requireOne(context, SET_OPTIONS)
    const path = { id: given.operand }
    return fromPresent(context, path.id, (vm, etag) => {
      const params = { path, query: dryRunQuery(context), header: { 'if-match': etag } }
      const body = metadataOf(vm, context)
      return changeVm(context, context.client().PUT('/v1/vms/{id}/metadata', { params, body }))
    })
  },
}

function metadataOf(vm: Vm, { given }: Context): Pick<Vm, 'labels' | 'protected'> {
  const added = given.texts('label').map((text) => parseLabel(text, '--label'))
  const removed = given.texts('unlabel')
  const kept = Object.entries(vm.labels).filter(([key]) => !removed.includes(key))
  const guard = given.text('protected')
  return {
    labels: Object.fromEntries([...kept, ...added]),
    protected: guard === undefined ? vm.protected : guard === 'yes',
  }
}
