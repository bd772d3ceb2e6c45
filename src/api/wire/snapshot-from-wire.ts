import { limits } from '../../config/limits.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import { given } from '../../lib/given.ts'
import { err, ok } from '../../lib/result.ts'
import { urlComplaints } from './values.ts'
import type { CompleteSnapshot, StartSnapshot } from '../../commands/snapshots/snapshots.ts'
import type { VmId } from '../../core/ids.ts'
import type { Complaint } from '../../lib/schema-check.ts'
import type { Result } from '../../lib/result.ts'
import type { SnapshotUrls } from '../../core/snapshots/record.ts'
import type { CompleteSnapshotWire, SnapshotUrlsWire, StartSnapshotWire } from './snapshot-requests.ts'

/*
 * These functions translate requests to the domain, or return the errors that the schema cannot find. From here on a
 * URL is a {@link SignedUrl} and cannot be printed.
 */

type FromWire<T> = Result<T, readonly Complaint[]>

export function startFromWire({ vm_id: vmId, upload }: StartSnapshotWire): FromWire<StartSnapshot> {
  const { part_size_mib: partMib, ...urls } = upload
  const read = urlsFromWire(urls, '/upload')
  return read.ok ? ok({ vmId: vmId as VmId, partMib, urls: read.value }) : read
}

/** `under` is the pointer to the URLs in the body. */
export function urlsFromWire(wire: SnapshotUrlsWire, under = ''): FromWire<SnapshotUrls> {
  const { first_part: firstPart = 1, part_urls: parts } = wire
  const complaints = [
    ...partsComplaints(firstPart, parts, `${under}/part_urls`),
    ...endComplaints(wire, under),
  ]
  if (complaints.length > 0) return err(complaints.slice(0, limits.findingsShown))
  return ok({ firstPart, parts: parts.map((url) => new SignedUrl(url)), ...endUrls(wire) })
}

export function completeFromWire(wire: CompleteSnapshotWire): FromWire<CompleteSnapshot> {
  const complaints = endComplaints(wire, '')
  if (complaints.length > 0) return err(complaints)
  return ok({ ...endUrls(wire), complete: new SignedUrl(wire.complete_url) })
}

type EndUrlsWire = Pick<SnapshotUrlsWire, 'complete_url' | 'head_url'>

const endUrls = ({ complete_url: complete, head_url: head }: EndUrlsWire) =>
  given({ complete: signed(complete), head: signed(head) })

const signed = (url: string | undefined): SignedUrl | undefined =>
  url === undefined ? undefined : new SignedUrl(url)

const endComplaints = (
  { complete_url: complete, head_url: head }: EndUrlsWire,
  under: string,
): Complaint[] => [
  ...(complete === undefined ? [] : urlComplaints(`${under}/complete_url`, complete)),
  ...(head === undefined ? [] : urlComplaints(`${under}/head_url`, head)),
]

function partsComplaints(firstPart: number, urls: readonly string[], pointer: string): Complaint[] {
  if (firstPart + urls.length - 1 > limits.partsMax) {
    const detail = `must end with part ${limits.partsMax}, the last that a store takes`
    return [{ pointer, code: 'out_of_range', detail }]
  }
  const seen = new Set<string>()
  return urls.flatMap((url, index): Complaint[] => {
    const here = `${pointer}/${index}`
    // Otherwise the store would have one part twice and lack another, and would report it only at the end.
    if (seen.has(url))
      return [{ pointer: here, code: 'not_allowed', detail: 'must not be that of another part' }]
    seen.add(url)
    return urlComplaints(here, url)
  })
}
