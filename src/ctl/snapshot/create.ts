import { answered } from '../../client/api-client.ts'
import { usageError } from '../ctl-error.ts'
import { handOverPages, showChanged } from './change.ts'
import { pagesOf, readUpload, UPLOAD_OPTION } from './upload-file.ts'
import { WAIT_OPTIONS } from './wait-for-snapshot.ts'
import type { components } from '../../client/schema.d.ts'
import type { Command, Context } from '../command.ts'
import type { Upload } from './upload-file.ts'

type StartSnapshot = components['schemas']['StartSnapshot']

export const createCommand: Command = {
  words: ['snapshot', 'create'],
  summary: 'take a snapshot of a VM, into an object store',
  description:
    'The disk of the VM is captured while the guest goes on, compressed, and sent to a multipart upload by signed URLs. The file has ' +
    'the size of a part and the URLs: {"part_size_mib": 64, "part_urls": ["https://…", …], "complete_url": "https://…", "head_url": ' +
    '"https://…"}. Without complete_url, snapshot complete ends it. Repeating the same command is safe, and fresh URLs are taken.',
  operand: { placeholder: 'ID' },
  options: [{ name: 'vm', value: 'VM', help: 'whose disk', completes: 'vm' }, UPLOAD_OPTION, ...WAIT_OPTIONS],
  examples: [
    ['nightly-1 --vm web-1 --upload urls.json --wait', 'with a bar that shows how far it is'],
    ['nightly-1 --vm web-1 --upload - <urls.json', 'URLs from a program; returns at once'],
  ],
  run: async (context) => {
    const vm = context.given.text('vm')
    if (vm === undefined) throw usageError('it needs --vm', 'see vmhostctl snapshot create --help')
    const upload = await readUpload(context, 'create')
    const [first, ...more] = pagesOf(upload)
    const taken = await start(context, { vm, upload, urls: first.part_urls })
    await handOverPages(context, taken.data.id, more)
    return showChanged(context, taken)
  },
}

type Start = { readonly vm: string; readonly upload: Upload; readonly urls: string[] }

function start({ given, client }: Context, { vm, upload, urls }: Start) {
  const params = { path: { id: given.operand } }
  // The daemon checks this body, so a wrong type may pass here.
  const body = { vm_id: vm, upload: { ...upload, part_urls: urls } } as StartSnapshot
  return answered(client().PUT('/v1/snapshots/{id}', { params, body }))
}
