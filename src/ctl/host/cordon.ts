import { answered } from '../../client/api-client.ts'
import { exitStatus } from '../exit-status.ts'
import { renderTable } from '../text.ts'
import { printable } from '../../lib/text.ts'
import { maintenanceWords } from './maintenance-words.ts'
import type { Command, Context, Option } from '../command.ts'
import type { ExitStatus } from '../exit-status.ts'
import type { Maintenance } from './maintenance-words.ts'

export const REASON_OPTION: Option = {
  name: 'reason',
  value: 'TEXT',
  help: 'why, shown in refusals and events; the present reason stays if this is not given',
}

/** Returns the reason that is given, or the present one of a host that is out of service already. */
export async function reasonOf({ client, given }: Context): Promise<{ readonly reason?: string }> {
  const text = given.text('reason')
  if (text !== undefined) return { reason: text }
  const { data } = await answered(client().GET('/v1/maintenance', {}))
  return data.state === 'schedulable' || data.reason === undefined ? {} : { reason: data.reason }
}

export const cordonCommand: Command = {
  words: ['host', 'cordon'],
  summary: 'let the host accept no more VMs and no growth',
  description:
    'The host then refuses new VMs, VMs from other hosts, and growth of memory, CPU or disk, with host_cordoned. Its own ' +
    'VMs keep running, and start, wake and restart as before; those that rest because the host was drained come back. The ' +
    'host stays cordoned after a restart of the daemon and a boot of the host.',
  options: [REASON_OPTION],
  examples: [
    ['', 'before the host is emptied'],
    ['--reason new-kernel-until-14:00', 'with a reason that refusals show'],
  ],
  run: async (context) => set(context, { state: 'cordoned', ...(await reasonOf(context)) }),
}

export const uncordonCommand: Command = {
  words: ['host', 'uncordon'],
  summary: 'put the host back into service',
  description:
    'The host accepts VMs again. Guests that rest because the host was drained come back, a few at a time: saved guests ' +
    'continue where they were, and stopped guests boot.',
  options: [],
  examples: [['', 'after the maintenance']],
  run: (context) => set(context, { state: 'schedulable' }),
}

export const statusCommand: Command = {
  words: ['host', 'status'],
  summary: 'show whether the host accepts VMs, and which guests are left',
  description:
    'Shows the state of the host, since when, and why; while it drains, also each guest that is left. vmhostctl sync shows ' +
    'the capacity and the rest.',
  options: [],
  examples: [
    ['', 'for reading'],
    ["--json | jq -r '.observed_state, .left[].vm_id'", 'for a program'],
  ],
  run: async (context) => {
    const { data } = await answered(context.client().GET('/v1/maintenance', {}))
    context.print(data, () => [printable(maintenanceWords(data)), ...leftRows(data, context)].join('\n'))
    return exitStatus.done
  },
}

function leftRows({ left }: Maintenance, { shell, paint }: Context): readonly string[] {
  if (left.length === 0) return []
  const rows = left.map(({ vm_id: id, state, under_way: underWay, error = '' }) => [
    id,
    state,
    underWay ? 'now' : 'waits',
    { text: error, colour: 'red' as const },
  ])
  const head = ['GUESTS LEFT', 'STATE', 'TURN', 'ERROR']
  return [renderTable(head, rows, { sink: shell.stdout, paint, lastBelow: true }).trimEnd()]
}

type Wanted = { readonly state: Maintenance['state']; readonly reason?: string }

async function set(context: Context, body: Wanted): Promise<ExitStatus> {
  const { data } = await answered(context.client().PUT('/v1/maintenance', { body }))
  context.print(data, () => printable(maintenanceWords(data)))
  return exitStatus.done
}
