import { answered, done } from '../../client/api-client.ts'
import { usageError } from '../ctl-error.ts'
import { WAIT_OPTIONS, seeThrough } from './wait.ts'
import { eachNamed } from '../several.ts'
import { exitStatus } from '../exit-status.ts'
import { doneWords, phaseWords } from './snapshot-words.ts'
import { limits } from '../../config/limits.ts'
import { given as present } from '../../lib/given.ts'
import { printable } from '../../lib/text.ts'
import { readJsonFile } from '../json-file.ts'
import type { components } from '../../client/schema.d.ts'
import type { Command, Context, Option } from '../command.ts'
import type { Answered, Snapshot } from '../../client/api-client.ts'
import type { ExitStatus } from '../exit-status.ts'

type StartSnapshot = components['schemas']['StartSnapshot']

type Urls = components['schemas']['SnapshotUrls']

/** Content of the file that --upload names, with unchecked members; the daemon checks them. */
type Upload = Partial<Urls> & { readonly part_size_mib?: number }

const UPLOAD_OPTION: Option = {
  name: 'upload',
  value: 'FILE',
  help: 'the signed URLs as JSON, - for standard input; never on a command line, which every user of the machine sees',
  completes: 'file',
}

export const createCommand: Command = {
  words: ['snapshot', 'create'],
  summary: 'take a snapshot of a VM, into an object store',
  description:
    'Captures the disk of the VM while the guest keeps running, compresses it, and sends it to a multipart upload through ' +
    'signed URLs. The file has the size of a part and the URLs: {"part_size_mib": 64, "part_urls": ["https://…", …], ' +
    '"complete_url": "https://…", "head_url": "https://…"}. Without complete_url, use snapshot complete at the end. ' +
    'Repeating the same command is safe; it may have fresh URLs.',
  operand: { placeholder: 'ID' },
  options: [
    { name: 'vm', value: 'VM', help: 'the VM whose disk is captured', completes: 'vm' },
    UPLOAD_OPTION,
    ...WAIT_OPTIONS,
  ],
  examples: [
    ['nightly-1 --vm web-1 --upload urls.json --wait', 'with a progress bar'],
    ['nightly-1 --vm web-1 --upload - <urls.json', 'URLs from a program; returns at once'],
  ],
  run: async (context) => {
    const vm = context.given.text('vm')
    if (vm === undefined) throw usageError('it needs --vm', 'see vmhostctl snapshot create --help')
    const { first_part: firstPart = 1, ...upload } = await readUpload(context, 'create')
    if (firstPart !== 1) throw usageError('"first_part" of a new snapshot must be 1', FIRST_PART_ADVICE)
    const [first, ...more] = pagesOf(upload)
    const taken = await start(context, { vm, upload, urls: first.part_urls })
    return showChanged(context, await handOverPages(context, taken, more))
  },
}

const FIRST_PART_ADVICE =
  'give the URLs of other parts with vmhostctl snapshot urls, once the snapshot is there'

type Start = { readonly vm: string; readonly upload: Upload; readonly urls: string[] }

function start({ given, client }: Context, { vm, upload, urls }: Start) {
  const params = { path: { id: given.operand } }
  // The daemon checks this body, so a wrong type may pass here.
  const body = { vm_id: vm, upload: { ...upload, part_urls: urls } } as StartSnapshot
  return answered(client().PUT('/v1/snapshots/{id}', { params, body }))
}

type CompleteSnapshot = components['schemas']['CompleteSnapshot']

export const urlsCommand: Command = {
  words: ['snapshot', 'urls'],
  summary: 'give a snapshot the URLs that it lacks, or fresh ones',
  description:
    'The file is that of snapshot create, and its URLs are of the same multipart upload. If the first of "part_urls" is not for part 1, "first_part" is the number of its ' +
    'part. Nothing that was sent is sent again. A failed snapshot that can continue does so; a completed one takes no URLs.',
  operand: { placeholder: 'ID', completes: 'snapshot' },
  options: [UPLOAD_OPTION, ...WAIT_OPTIONS],
  examples: [
    ['nightly-1 --upload urls.json', 'after the old ones have expired'],
    ['nightly-1 --upload urls.json --wait', 'the same, and wait until it is completed'],
  ],
  run: async (context) => {
    const { part_size_mib: _, ...upload } = await readUpload(context, 'urls')
    const params = { path: { id: context.given.operand } }
    const [first, ...more] = pagesOf(upload)
    const body = { ...upload, ...first }
    const taken = await answered(context.client().PUT('/v1/snapshots/{id}/upload', { params, body }))
    return showChanged(context, await handOverPages(context, taken, more))
  },
}

export const completeCommand: Command = {
  words: ['snapshot', 'complete'],
  summary: 'complete the upload of a snapshot',
  description:
    'Completes the upload as soon as all parts are sent. Of the file, only "complete_url" and "head_url" are used. ' +
    'Repeating the same command is safe, also after the upload was completed.',
  operand: { placeholder: 'ID', completes: 'snapshot' },
  options: [UPLOAD_OPTION, ...WAIT_OPTIONS],
  examples: [['nightly-1 --upload urls.json --wait', 'until the object is there']],
  run: async (context) => {
    const { complete_url: complete, head_url: head } = await readUpload(context, 'complete')
    const params = { path: { id: context.given.operand } }
    const body = present({ complete_url: complete, head_url: head }) as CompleteSnapshot
    const call = context.client().POST('/v1/snapshots/{id}/complete', { params, body })
    return showChanged(context, await answered(call))
  },
}

export const removeCommand: Command = {
  words: ['snapshot', 'rm'],
  summary: 'delete snapshots',
  description:
    'Deletes the records of the snapshots and what is staged of them on the host. A completed object stays in the store. ' +
    'An unfinished upload ends, and must be aborted there.',
  operand: { placeholder: 'ID', many: true, completes: 'snapshot' },
  options: [],
  examples: [['nightly-1 nightly-2', 'also succeeds for snapshots that are already gone']],
  run: (context) =>
    eachNamed(context, async (id) => {
      const params = { path: { id } }
      const { response } = await context.client().GET('/v1/snapshots/{id}', { params })
      await done(context.client().DELETE('/v1/snapshots/{id}', { params }))
      context.print({ id, gone: true }, () => `${id}: ${response.status === 404 ? 'did not exist' : 'gone'}`)
      return exitStatus.done
    }),
}

/**
 * Sends pages of URLs that did not fit into an earlier request. Returns the last answer, with the status of a change if
 * any request changed something.
 */
async function handOverPages(
  context: Context,
  first: Answered<Snapshot>,
  pages: readonly Page[],
): Promise<Answered<Snapshot>> {
  const params = { path: { id: first.data.id } }
  let last = first
  for (const body of pages) {
    const next = await answered(context.client().PUT('/v1/snapshots/{id}/upload', { params, body }))
    last = next.status === 200 ? { ...next, status: last.status } : next
  }
  return last
}

/** Waits for a snapshot if the user asked for it, and shows the result of a change. */
async function showChanged(context: Context, { data, status }: Answered<Snapshot>): Promise<ExitStatus> {
  const { id } = data
  if (context.given.isSet('wait')) return await seeThrough(context, id)
  context.print(data, () =>
    printable(
      status === 200
        ? `${id}: nothing to change; ${phaseWords(data)}, ${doneWords(data)}`
        : `${id}: accepted. To wait for it: vmhostctl snapshot wait ${id}`,
    ),
  )
  return exitStatus.done
}

const ADVICE =
  'it has {"part_size_mib": 64, "part_urls": ["https://…"], "complete_url": "https://…", "head_url": "https://…"}'

/** Reads the file that --upload names; `command` is the name of the command that needs it. Throws CtlError. */
async function readUpload(context: Context, command: string): Promise<Upload> {
  const path = context.given.text('upload')
  if (path === undefined) throw usageError('it needs --upload', `see vmhostctl snapshot ${command} --help`)
  const upload = await readJsonFile({ path, option: '--upload', advice: ADVICE }, context)
  const { part_urls: urls = [] } = upload
  if (!Array.isArray(urls) || !urls.every((url) => typeof url === 'string'))
    throw usageError('"part_urls" is not a list of URLs', ADVICE)
  return upload
}

/** URLs for parts, as many as fit into one request. */
type Page = { readonly first_part: number; readonly part_urls: string[] }

/** Returns pages with all URLs, one request each; at least one page. */
function pagesOf({ first_part: first = 1, part_urls: urls = [] }: Upload): [Page, ...Page[]] {
  let page: Page = { first_part: first, part_urls: [] }
  const pages: [Page, ...Page[]] = [page]
  let bytes = 0
  for (const [index, url] of urls.entries()) {
    // Count the quotes and the comma too.
    const size = Buffer.byteLength(JSON.stringify(url)) + 1
    const isFull = bytes + size > limits.ctlUrlsBytesMax || page.part_urls.length === limits.partUrlsMax
    if (isFull && page.part_urls.length > 0) {
      page = { first_part: first + index, part_urls: [] }
      pages.push(page)
      bytes = 0
    }
    page.part_urls.push(url)
    bytes += size
  }
  return pages
}
