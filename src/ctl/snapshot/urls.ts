import { answered } from '../../client/api-client.ts'
import { handOverPages, showChanged } from './change.ts'
import { pagesOf, readUpload, UPLOAD_OPTION } from './upload-file.ts'
import { WAIT_OPTIONS } from './wait-for-snapshot.ts'
import type { components } from '../../client/schema.d.ts'
import type { Command } from '../command.ts'

type CompleteSnapshot = components['schemas']['CompleteSnapshot']

export const urlsCommand: Command = {
  words: ['snapshot', 'urls'],
  summary: 'hand over URLs that a snapshot lacks, or fresh ones',
  description:
    'The file is that of snapshot create; "first_part" in it says for which part the first of "part_urls" is, where that is not 1. ' +
    'Nothing that was sent is sent again. One that has failed and can go on goes on; one that is completed takes none.',
  operand: { placeholder: 'ID', completes: 'snapshot' },
  options: [UPLOAD_OPTION, ...WAIT_OPTIONS],
  examples: [
    ['nightly-1 --upload urls.json', 'after the old ones have expired'],
    ['nightly-1 --upload urls.json --wait', 'the same, and see it through'],
  ],
  run: async (context) => {
    const { part_size_mib: _, ...upload } = await readUpload(context, 'urls')
    const params = { path: { id: context.given.operand } }
    const [first, ...more] = pagesOf(upload)
    const body = { ...upload, ...first }
    const taken = await answered(context.client().PUT('/v1/snapshots/{id}/upload', { params, body }))
    await handOverPages(context, taken.data.id, more)
    return showChanged(context, taken)
  },
}

export const completeCommand: Command = {
  words: ['snapshot', 'complete'],
  summary: 'let the upload of a snapshot be completed',
  description:
    'As soon as all of it is sent. Of the file only "complete_url" and "head_url" are used. Safe to repeat, also when it is completed.',
  operand: { placeholder: 'ID', completes: 'snapshot' },
  options: [UPLOAD_OPTION, ...WAIT_OPTIONS],
  examples: [['nightly-1 --upload urls.json --wait', 'until the object is there']],
  run: async (context) => {
    const { complete_url: complete, head_url: head } = await readUpload(context, 'complete')
    const params = { path: { id: context.given.operand } }
    const urls = {
      ...(complete === undefined ? {} : { complete_url: complete }),
      ...(head === undefined ? {} : { head_url: head }),
    }
    const body = urls as CompleteSnapshot
    return showChanged(
      context,
      await answered(context.client().POST('/v1/snapshots/{id}/complete', { params, body })),
    )
  },
}
