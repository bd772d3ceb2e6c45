import { answered } from '../../client/api-client.ts'
import { causeFirst } from '../../client/cause-first.ts'
import { addressesOf, labelsOf } from '../../client/vm-words.ts'
import { allPages, noneMatch, showList } from '../several.ts'
import { given as present } from '../../lib/given.ts'
import { showCores, showMib } from '../../lib/shown-units.ts'
import { parseLabel } from './settings.ts'
import { sleepCell, generationWords, stateColour, waitWords } from './vm-words.ts'
import type { Vm, ApiClient } from '../../client/api-client.ts'
import type { Command, Context } from '../command.ts'
import type { Cell } from '../text.ts'

/** A record by name: a state that is added to the API does not compile until it is here. */
const ALL_STATES: Record<Vm['observed']['state'], true> = {
  pending: true,
  starting: true,
  running: true,
  pausing: true,
  paused: true,
  stopping: true,
  stopped: true,
  sleeping: true,
  waking: true,
  migrated: true,
  deleting: true,
  failed: true,
}

const STATES = Object.keys(ALL_STATES) as readonly Vm['observed']['state'][]

const HEAD = ['NAME', 'STATE', 'GENERATION', 'CPU', 'MEMORY', 'DISK', 'SLEEP', 'ADDRESSES', 'WHY']

/** Columns that only --wide shows. */
const WIDE: readonly (readonly [head: string, cell: (vm: Vm) => string])[] = [
  ['MONITOR', ({ monitor }) => monitor],
  ['LABELS', (vm) => labelsOf(vm).join(' ')],
]

export const listCommand: Command = {
  words: ['vm', 'ls'],
  summary: 'list VMs',
  description:
    'Lists every VM of the host, or those with all of the given labels and in the given state. GENERATION is "2 of 3" ' +
    'until the host has reached the desired state. SLEEP is the idle timeout, or the size of the saved state. WHY is the ' +
    'error that keeps the VM from its desired state, and what it waits for. --wide adds the monitor and the labels.',
  options: [
    { name: 'label', value: 'KEY=VALUE', many: true, help: 'only VMs with this label', check: parseLabel },
    {
      name: 'state',
      value: 'STATE',
      help: 'only VMs in this state',
      completes: STATES,
    },
    { name: 'wide', help: 'also show monitor and labels' },
  ],
  examples: [
    ['', 'all of them'],
    ['--label env=prod --state failed', 'what is broken in production'],
    ['--state sleeping', 'VMs that use no memory now'],
    ["--json | jq -r '.items[].id'", 'names alone, for a program'],
  ],
  run: async (context) => {
    const more = context.given.isSet('wide') ? WIDE : []
    return showList(context, {
      ...{ items: await listVms(context.client(), queryOf(context)), lastBelow: true },
      head: HEAD.toSpliced(-1, 0, ...more.map(([name]) => name)),
      rowsOf: (vms) => vms.map((vm) => rowOf(vm).toSpliced(-1, 0, ...more.map(([, cell]) => cell(vm)))),
      none: () =>
        noneMatch('VM', context, ['label', 'state']) ??
        'no VMs; vmhostctl vm create --help shows how to make one',
    })
  },
}

type Query = { state?: Vm['observed']['state']; label?: string }

function queryOf({ given }: Context): Query {
  const state = STATES.find((name) => name === given.text('state'))
  const labels = given.texts('label')
  return {
    ...present({ state }),
    ...(labels.length === 0 ? {} : { label: labels.join(',') }),
  }
}

export const listVms = (client: ApiClient, query: Query = {}): Promise<Vm[]> =>
  allPages((page) => answered(client.GET('/v1/vms', { params: { query: { ...query, ...page } } })))

function rowOf(vm: Vm): (string | Cell)[] {
  const { compute, disk } = vm.desired
  return [
    vm.id,
    { text: vm.observed.state, colour: stateColour(vm) },
    generationWords(vm),
    showCores(compute.cpu_millicores),
    showMib(compute.memory_mib),
    showMib(disk.size_mib),
    sleepCell(vm),
    addressesOf(vm).join(' '),
    { text: whyWords(vm), colour: vm.observed.error === undefined ? 'yellow' : 'red' },
  ]
}

/** Says why a VM is not as it should be: its error, and what it waits for. Empty if nothing keeps it. */
function whyWords(vm: Vm): string {
  const { error } = vm.observed
  const waitsFor = waitWords(vm)
  return [
    ...(error === undefined ? [] : [causeFirst(error)]),
    ...(waitsFor === undefined ? [] : [`waits for ${waitsFor}`]),
  ].join('; ')
}
