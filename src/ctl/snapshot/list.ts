import { answered } from '../../client/api-client.ts'
import { allPages, noneMatch, showList } from '../several.ts'
import { given as present } from '../../lib/given.ts'
import { showMib } from '../../lib/shown-units.ts'
import { lackingWords, statusColour, troubleWords } from './snapshot-words.ts'
import type { Snapshot, ApiClient } from '../../client/api-client.ts'
import type { Command, Context } from '../command.ts'
import type { Cell } from '../text.ts'

/** A record by name: a status that is added to the API does not compile until it is here. */
const ALL_STATUSES: Record<Snapshot['status'], true> = {
  pending: true,
  uploading: true,
  completed: true,
  failed: true,
}

const STATUSES = Object.keys(ALL_STATUSES) as readonly Snapshot['status'][]

const HEAD = ['ID', 'VM', 'STATUS', 'DONE', 'SIZE', 'STORED', 'STAGED', 'CAPTURED', 'ERROR']

export const listCommand: Command = {
  words: ['snapshot', 'ls'],
  summary: 'list snapshots',
  description:
    'Lists the snapshots of the host, or those of a VM or with a status. DONE is how much of the disk is in the store. ' +
    'SIZE is the size of the disk, STORED that of the object, and STAGED how much of the object the host still has. ERROR ' +
    'is the error, or what the snapshot needs URLs for, or what it waits for.',
  options: [
    { name: 'vm', value: 'VM', help: 'only snapshots of this VM, even if it is gone', completes: 'vm' },
    {
      name: 'status',
      value: 'STATUS',
      help: 'only snapshots with this status',
      completes: STATUSES,
    },
  ],
  examples: [
    ['', 'all of them'],
    ['--vm web-1 --status completed', 'the completed snapshots of a VM'],
    ["--json | jq -r '.items[] | select(.needs_urls) | .id'", 'those that need URLs'],
  ],
  run: async (context) => {
    return showList(context, {
      ...{ items: await listSnapshots(context.client(), queryOf(context)), head: HEAD, lastBelow: true },
      rowsOf: (snapshots) => snapshots.map(rowOf),
      none: async () =>
        (await withoutVm(context, noneMatch('snapshot', context, ['vm', 'status']))) ??
        'no snapshots; vmhostctl snapshot create --help shows how to take one',
    })
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
  return present({ status, vm_id: vm })
}

const listSnapshots = (client: ApiClient, query: Query): Promise<Snapshot[]> =>
  allPages((page) => answered(client.GET('/v1/snapshots', { params: { query: { ...query, ...page } } })))

function rowOf(snapshot: Snapshot): (string | Cell)[] {
  const { id, vm_id: vm, status, progress } = snapshot
  const { size_mib: size, stored_size_mib: stored, staged_mib: staged } = snapshot
  const colour = statusColour(snapshot)
  const lacking = lackingWords(snapshot)
  return [
    id,
    vm,
    { text: status, colour },
    `${progress.percent} %`,
    size === undefined ? '' : showMib(size),
    stored === undefined ? '' : showMib(stored),
    size === undefined ? '' : showMib(staged),
    snapshot.captured_at ?? '',
    {
      text: troubleWords(snapshot, lacking === undefined ? undefined : ` ${lacking}`) ?? '',
      colour: status === 'failed' ? 'red' : 'yellow',
    },
  ]
}
