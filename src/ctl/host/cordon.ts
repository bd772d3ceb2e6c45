import { answered } from '../../client/api-client.ts'
import { given } from '../../lib/given.ts'
import { exitStatus } from '../exit-status.ts'
import { maintenanceWords } from './maintenance-words.ts'
import type { Command, Context, Option } from '../command.ts'
import type { ExitStatus } from '../exit-status.ts'
import type { Maintenance } from './maintenance-words.ts'

const REASON_OPTION: Option = {
  name: 'reason',
  value: 'TEXT',
  help: 'why, for those who are refused and for the events',
}

export const cordonCommand: Command = {
  words: ['host', 'cordon'],
  summary: 'let the host take nothing more',
  description:
    'No new VM, no VM from another host, and no growth of memory, CPU or disk: each is refused with host_cordoned. The VMs that it ' +
    'has live on, and start, wake and restart as before. It stays so over a restart of the daemon and a boot of the host.',
  options: [REASON_OPTION],
  examples: [
    ['', 'before the host is emptied'],
    ['--reason new-kernel-until-14:00', 'with words for those who are refused'],
  ],
  run: (context) => set(context, 'cordoned'),
}

export const uncordonCommand: Command = {
  words: ['host', 'uncordon'],
  summary: 'put the host back into service',
  description: 'It takes VMs again.',
  options: [],
  examples: [['', 'after the maintenance']],
  run: (context) => set(context, 'schedulable'),
}

export const statusCommand: Command = {
  words: ['host', 'status'],
  summary: 'show whether the host takes more',
  description: 'Its state, since when, and why. vmhostctl sync shows the capacity and the rest.',
  options: [],
  examples: [
    ['', 'for reading'],
    ['--json | jq -r .state', 'for a program'],
  ],
  run: async (context) => {
    const { data } = await answered(context.client().GET('/v1/maintenance', {}))
    context.print(data, () => maintenanceWords(data))
    return exitStatus.done
  },
}

async function set(context: Context, state: Maintenance['state']): Promise<ExitStatus> {
  const body = { state, ...given({ reason: context.given.text('reason') }) }
  const { data } = await answered(context.client().PUT('/v1/maintenance', { body }))
  context.print(data, () => maintenanceWords(data))
  return exitStatus.done
}
