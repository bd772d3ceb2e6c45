/** Makes snapshots with the daemon of this lab, and reads their objects with other clients. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { call, mutate } from './controller.ts'
import { CA_FILE } from './object-store-files.ts'
import { sh } from './shell.ts'
import { until } from './until.ts'
import type { Upload } from './presign.ts'

/** The members of a snapshot that are read here. */
export type Snapshot = {
  readonly id: string
  readonly vm_id: string
  readonly status: 'pending' | 'uploading' | 'completed' | 'failed'
  readonly progress: { readonly phase: string; readonly done_mib: number; readonly percent: number }
  readonly needs_urls: boolean
  readonly lacking_urls?: { readonly parts: readonly number[]; readonly complete: boolean }
  readonly parts: { readonly part_size_mib: number; readonly packed: number; readonly sent: number }
  readonly size_mib?: number
  readonly stored_size_mib?: number
  readonly staged_mib: number
  readonly sha256?: string
  readonly consistency?: 'file_system' | 'crash'
  readonly paused_ms?: number
  readonly error?: string
  readonly fault?: { readonly code: string; readonly attempt: number }
}

/** The smallest size that S3 accepts, so that even a small disk has several parts. */
export const PART_SIZE_MIB = 5

export type SnapshotOptions = {
  /** False: the snapshot waits for a completion when all parts are sent. */
  readonly complete?: boolean
  readonly partSizeMib?: number
}

type Urls = Pick<Upload, 'partUrls' | 'completeUrl' | 'headUrl'>

const urlMembers = ({ partUrls, completeUrl, headUrl }: Urls, complete: boolean): object => ({
  part_urls: partUrls,
  ...(complete ? { complete_url: completeUrl, head_url: headUrl } : {}),
})

/** Starts it; rejects if the daemon refuses. */
export const startSnapshot = async (
  id: string,
  vmId: string,
  upload: Urls,
  { complete = true, partSizeMib = PART_SIZE_MIB }: SnapshotOptions = {},
): Promise<Snapshot> => {
  const members = { part_size_mib: partSizeMib, ...urlMembers(upload, complete) }
  return snapshotOf(await mutate('PUT', `/v1/snapshots/${id}`, { vm_id: vmId, upload: members }))
}

/** Hands over fresh URLs. */
export const handOver = async (id: string, upload: Urls): Promise<Snapshot> =>
  snapshotOf(await mutate('PUT', `/v1/snapshots/${id}/upload`, urlMembers(upload, true)))

export const completeSnapshot = async (id: string, { completeUrl, headUrl }: Urls): Promise<Snapshot> =>
  snapshotOf(
    await mutate('POST', `/v1/snapshots/${id}/complete`, { complete_url: completeUrl, head_url: headUrl }),
  )

export const deleteSnapshot = async (id: string): Promise<void> =>
  void (await mutate('DELETE', `/v1/snapshots/${id}`))

/** Returns undefined if there is none. */
export async function findSnapshot(id: string): Promise<Snapshot | undefined> {
  const { status, body } = await call('GET', `/v1/snapshots/${id}`)
  if (status === 404) return undefined
  if (status !== 200) throw new Error(`GET of the snapshot ${id}: ${status}`)
  return snapshotOf(body)
}

/** Waits until the snapshot has this status. A failed snapshot is an error, unless that is the status. */
export async function snapshotIs(
  id: string,
  what: string,
  check: (snapshot: Snapshot) => boolean,
  boundMs?: number,
): Promise<Snapshot> {
  const found = await until(
    `the snapshot ${id} ${what}`,
    async () => {
      const snapshot = await findSnapshot(id)
      if (snapshot === undefined) throw new Error(`there is no snapshot ${id}`)
      const { status, progress, parts, error } = snapshot
      if (check(snapshot) || status === 'failed') return snapshot
      throw new Error(`${JSON.stringify({ status, progress, parts })} ${error ?? ''}`)
    },
    boundMs,
  )
  if (!check(found)) throw new Error(`the snapshot ${id} has failed: ${found.error ?? ''}`)
  return found
}

export const completed = (id: string, boundMs?: number): Promise<Snapshot> =>
  snapshotIs(id, 'is completed', ({ status }) => status === 'completed', boundMs)

/** Downloads with curl, decompresses with Debian's zstd, and returns the SHA-256 of the result. */
export async function downloadedSha256(url: string, target: string): Promise<string> {
  const script = 'set -o pipefail; curl --silent --fail --cacert "$1" "$2" | zstd -q -d -f -o "$3"'
  await sh('bash', '-c', script, 'bash', CA_FILE, url, target)
  return sha256Of(target)
}

export async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

const snapshotOf = (body: object): Snapshot => body as Snapshot
