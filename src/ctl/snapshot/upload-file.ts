import { limits } from '../../config/limits.ts'
import { usageError } from '../ctl-error.ts'
import { readJsonFile } from '../json-file.ts'
import type { components } from '../../client/schema.d.ts'
import type { Context, Option } from '../command.ts'

type Urls = components['schemas']['SnapshotUrls']

/** Content of the file that --upload names, with unchecked members; the daemon checks them. */
export type Upload = Partial<Urls> & { readonly part_size_mib?: number }

export const UPLOAD_OPTION: Option = {
  name: 'upload',
  value: 'FILE',
  help: 'the signed URLs as JSON, - for standard input; never on a command line, which every user of the machine sees',
  completes: 'file',
}

const ADVICE =
  'it has {"part_size_mib": 64, "part_urls": ["https://…"], "complete_url": "https://…", "head_url": "https://…"}'

/** Reads the file that --upload names; `command` is the name of the command that needs it. Throws CtlError. */
export async function readUpload(context: Context, command: string): Promise<Upload> {
  const path = context.given.text('upload')
  if (path === undefined) throw usageError('it needs --upload', `see vmhostctl snapshot ${command} --help`)
  const upload = await readJsonFile({ path, option: '--upload', advice: ADVICE }, context)
  const { part_urls: urls = [] } = upload
  if (!Array.isArray(urls) || !urls.every((url) => typeof url === 'string'))
    throw usageError('"part_urls" is not a list of URLs', ADVICE)
  return upload
}

/** URLs for parts, as many as fit into one request. */
export type Page = { readonly first_part: number; readonly part_urls: string[] }

/** Returns pages with all URLs, one request each; at least one page. */
export function pagesOf({ first_part: first = 1, part_urls: urls = [] }: Upload): [Page, ...Page[]] {
  let page: Page = { first_part: first, part_urls: [] }
  const pages: [Page, ...Page[]] = [page]
  let bytes = 0
  for (const [index, url] of urls.entries()) {
    // Count the quotes and the comma too.
    const size = Buffer.byteLength(JSON.stringify(url)) + 1
    if (bytes + size > limits.ctlUrlsBytesMax && page.part_urls.length > 0) {
      page = { first_part: first + index, part_urls: [] }
      pages.push(page)
      bytes = 0
    }
    page.part_urls.push(url)
    bytes += size
  }
  return pages
}
