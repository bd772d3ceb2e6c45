import { answered } from '../../client/api-client.ts'
import { causeFirst } from '../cause-first.ts'
import { exitStatus } from '../exit-status.ts'
import { noneMatch } from '../none-match.ts'
import { renderTable } from '../text.ts'
import { showMib } from '../units.ts'
import { STATUSES } from './statuses.ts'
import { lackingWords, statusColour } from './snapshot-words.ts'
import type { ApiClient, Snapshot } from '../../client/api-client.ts'
import type { Command, Context } from '../command.ts'
import type { Cell } from '../text.ts'

const HEAD = ['ID', 'VM', 'STATUS', 'DONE', 'SIZE', 'STORED', 'STAGED', 'CAPTURED', 'ERROR']

export const listCommand: Command = {
  words: ['snapshot', 'ls'],
  summary: 'list snapshots',
  description:
    'Those of the host that were not deleted, or those of a VM or with a status. DONE is what the store has of the disk; SIZE the disk, ' +
    'STORED the object, STAGED what the host still has of that; ERROR says what keeps it, or for what it needs URLs.',
  options: [
    { name: 'vm', value: 'VM', help: 'only snapshots of this VM, also where it is gone', completes: 'vm' },
    {
      name: 'status',
      value: 'STATUS',
      help: 'only snapshots with this status',
      completes: STATUSES,
    },
  ],
  examples: [
    ['', 'all of them'],
    ['--vm web-1 --status completed', 'what there is of a VM'],
    ["--json | jq -r '.items[] | select(.needs_urls) | .id'", 'those that need URLs'],
  ],
  run: async (context) => {
    const snapshots = await listSnapshots(context.client(), queryOf(context))
    const { shell, paint } = context
    if (context.json) context.answer({ items: snapshots })
    else if (snapshots.length === 0)
      context.say(
        (await withoutVm(context, noneMatch('snapshot', context, ['vm', 'status']))) ??
          'no snapshots; vmhostctl snapshot create --help shows how to take one',
      )
    else
      shell.stdout.write(
        renderTable(HEAD, snapshots.map(rowOf), { sink: shell.stdout, paint, lastBelow: true }),
      )
    return exitStatus.done
  },
}

/** Adds that the VM does not exist: its name may be misspelt. */
async function withoutVm({ client, given }: Context, words: string | undefined): Promise<string | undefined> {
  const id = given.text('vm')
  if (words === undefined || id === undefined) return words
  const { response } = await client().GET('/v1/vms/{id}', { params: { path: { id } } })
  return response.status === 404 ? `${words}; there is no VM ${id} on this host either` : words
}

type Query = { vm_id?: string; status?: Snapshot['status'] }

function queryOf({ given }: Context): Query {
  const status = STATUSES.find((name) => name === given.text('status'))
  const vm = given.text('vm')
  return {
    ...(status === undefined ? {} : { status }),
    ...(vm === undefined ? {} : { vm_id: vm }),
  }
}

/** Reads all pages of the list. */
async function listSnapshots(client: ApiClient, query: Query): Promise<Snapshot[]> {
  const snapshots: Snapshot[] = []
  let page: { cursor?: string } = {}
  for (;;) {
    const { data } = await answered(client.GET('/v1/snapshots', { params: { query: { ...query, ...page } } }))
    snapshots.push(...data.items)
    if (data.next_cursor === undefined) return snapshots
    page = { cursor: data.next_cursor }
  }
}

function rowOf(snapshot: Snapshot): (string | Cell)[] {
  const { id, vm_id: vm, status, progress, error } = snapshot
  const { size_mib: size, stored_size_mib: stored, staged_mib: staged } = snapshot
  const colour = statusColour(snapshot)
  const lacking = lackingWords(snapshot)
  return [
    id,
    vm,
    { text: status, ...(colour === undefined ? {} : { colour }) },
    `${progress.percent} %`,
    size === undefined ? '' : showMib(size),
    stored === undefined ? '' : showMib(stored),
    size === undefined ? '' : showMib(staged),
    snapshot.captured_at ?? '',
    {
      text: error === undefined ? (lacking === undefined ? '' : `needs URLs ${lacking}`) : causeFirst(error),
      colour: status === 'failed' ? 'red' : 'yellow',
    },
  ]
}
