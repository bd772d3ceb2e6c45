import { limits } from '../../config/limits.ts'
import { usageError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { showSpan } from '../../lib/shown-units.ts'
import { printable } from '../../lib/text.ts'
import { parseSeconds } from '../units.ts'
import { boundOptions } from '../wait.ts'
import { beginMove, movedLine, movedWords, seeThrough, stayed } from './move-vm.ts'
import { parseSourceUrl, sourceUrl, withdraw } from './offer.ts'
import type { Command, Context } from '../command.ts'
import type { ExitStatus } from '../exit-status.ts'
import type { Move, Sides } from './hosts.ts'
import type { Moved } from './move-vm.ts'

const SPAN = showSpan(limits.ctlOfferSecondsDefault * 1000)

export const migrateCommand: Command = {
  words: ['vm', 'migrate'],
  summary: 'move a VM to another host',
  description:
    'The usual profile names the source, where the VM is; --to names the destination. The guest moves with its memory, and ' +
    'is down for about as long as a sleep and a wake take; its disk is copied before that, while it runs. The source ' +
    'offers the VM, the destination takes it over port 9001 of the source, and one record at the source decides which host ' +
    'may run it. Interrupting this command is safe at any time: run the same command again to continue. When the guest is at the destination, its record at the source is deleted.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [
    { name: 'to', value: 'PROFILE', help: 'the profile of the destination', completes: 'file' },
    { name: 'cold', help: 'the guest is stopped at the source, and only its disk moves' },
    {
      name: 'expires',
      value: 'TIME',
      help: `the source withdraws the offer after this long, if the guest has not left by then (${SPAN})`,
      check: parseSeconds,
    },
    {
      name: 'source-url',
      value: 'URL',
      help: "where the destination finds the source; port 9001 of the source profile's host if not given",
      check: parseSourceUrl,
    },
    {
      name: 'node',
      value: 'NAME',
      help: "common name of the destination's node certificate; the id of that host if not given",
    },
    { name: 'keep', help: 'leave the record of the VM at the source, which never runs it again' },
    { name: 'cancel', help: 'withdraw the offer instead: the guest stays at the source' },
    ...boundOptions(limits.ctlMigrateSecondsDefault),
  ],
  examples: [
    ['web-1 --to host-2.toml', 'from the host of the usual profile, and wait until it has moved'],
    ['web-1 --profile host-1.toml --to host-2.toml --cold', 'stopped, for two hosts that differ too much'],
    ['web-1 --to host-2.toml --source-url https://10.0.0.1:9001', 'if the hosts have a network of their own'],
    ['web-1 --to host-2.toml --json', 'one line of JSON for each step, the last with "stage":"moved"'],
    ['web-1 --cancel', 'keep it here; refused once it was released'],
  ],
  run: async (context) => {
    const { given } = context
    const source = context.daemon()
    const id = given.operand
    if (given.isSet('cancel')) return cancel(context, { id, source })
    const to = given.text('to')
    if (to === undefined) throw usageError('it needs --to', 'see vmhostctl vm migrate --help')
    return migrate(context, { id, source, destination: context.daemon(to) })
  },
}

async function migrate(context: Context, move: Move): Promise<ExitStatus> {
  const url = sourceUrl(context, move)
  const seen = { sides: {} as Sides }
  try {
    const offered = await beginMove(context, move, url)
    showMoved(context, move, await seeThrough(context, move, { offered, seen }))
    return exitStatus.done
  } catch (error) {
    throw await stayed(move, error, seen.sides)
  }
}

function showMoved(context: Context, move: Move, moved: Moved): void {
  if (context.json) context.shell.stdout.write(`${movedLine(move, moved)}\n`)
  else context.print(undefined, () => printable(movedWords(move, moved)))
}

async function cancel(context: Context, { id, source }: Pick<Move, 'id' | 'source'>): Promise<ExitStatus> {
  const { data: vm, status } = await withdraw({ id, source })
  // A request that changes nothing is answered with 200. The stage may be that of an earlier move.
  context.print(vm, () =>
    status === 200 ? `${id}: there is no offer to withdraw` : `${id}: stays here; its offer is withdrawn`,
  )
  return exitStatus.done
}
