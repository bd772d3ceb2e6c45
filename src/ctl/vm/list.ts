import { answered } from '../../client/api-client.ts'
import { causeFirst } from '../cause-first.ts'
import { exitStatus } from '../exit-status.ts'
import { noneMatch } from '../none-match.ts'
import { renderTable } from '../text.ts'
import { showCores, showMib } from '../units.ts'
import { parseLabel } from './label.ts'
import { sleepCell } from './sleep.ts'
import { STATES } from './states.ts'
import { generationWords, stateColour } from './vm-words.ts'
import type { ApiClient, Vm } from '../../client/api-client.ts'
import type { Command, Context } from '../command.ts'
import type { Cell } from '../text.ts'

const HEAD = ['NAME', 'STATE', 'GENERATION', 'CPU', 'MEMORY', 'DISK', 'SLEEP', 'ADDRESSES', 'ERROR']

export const listCommand: Command = {
  words: ['vm', 'ls'],
  summary: 'list VMs',
  description:
    'Every VM of the host, or those with all of the labels and in the state that are given. GENERATION is "2 of 3" while ' +
    'the host is on its way to what is desired; SLEEP is after how long without traffic it sleeps, or what is saved of it; ' +
    'ERROR says what keeps it.',
  options: [
    { name: 'label', value: 'KEY=VALUE', many: true, help: 'only VMs with this label', check: parseLabel },
    {
      name: 'state',
      value: 'STATE',
      help: 'only VMs in this state',
      completes: STATES,
    },
  ],
  examples: [
    ['', 'all of them'],
    ['--label env=prod --state failed', 'what is broken in production'],
    ['--state sleeping', 'what costs no memory now'],
    ["--json | jq -r '.items[].id'", 'names alone, for a program'],
  ],
  run: async (context) => {
    const vms = await listVms(context.client(), queryOf(context))
    if (context.json) context.answer({ items: vms })
    else if (vms.length === 0)
      context.say(
        noneMatch('VM', context, ['label', 'state']) ??
          'no VMs; vmhostctl vm create --help shows how to make one',
      )
    else
      context.shell.stdout.write(
        renderTable(HEAD, vms.map(rowOf), {
          sink: context.shell.stdout,
          paint: context.paint,
          lastBelow: true,
        }),
      )
    return exitStatus.done
  },
}

type Query = { state?: Vm['observed']['state']; label?: string }

function queryOf({ given }: Context): Query {
  const state = STATES.find((name) => name === given.text('state'))
  const labels = given.texts('label')
  return {
    ...(state === undefined ? {} : { state }),
    ...(labels.length === 0 ? {} : { label: labels.join(',') }),
  }
}

/** Reads all pages of the list. */
export async function listVms(client: ApiClient, query: Query = {}): Promise<Vm[]> {
  const vms: Vm[] = []
  let page: { cursor?: string } = {}
  for (;;) {
    const { data } = await answered(client.GET('/v1/vms', { params: { query: { ...query, ...page } } }))
    vms.push(...data.items)
    if (data.next_cursor === undefined) return vms
    page = { cursor: data.next_cursor }
  }
}

function rowOf(vm: Vm): (string | Cell)[] {
  const { compute, disk, network } = vm.desired
  const colour = stateColour(vm)
  return [
    vm.id,
    { text: vm.observed.state, ...(colour === undefined ? {} : { colour }) },
    generationWords(vm),
    showCores(compute.cpu_millicores),
    showMib(compute.memory_mib),
    showMib(disk.size_mib),
    sleepCell(vm),
    [network?.ipv4_address, network?.ipv6_address].filter((address) => address !== undefined).join(' '),
    { text: causeFirst(vm.observed.error ?? ''), colour: 'red' },
  ]
}
