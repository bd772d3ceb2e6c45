import { existsSync, readdirSync } from 'node:fs'
import { mutate, settled } from '../../lab/inside/controller.ts'
import { configure } from '../../lab/inside/configure.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { startObjectStore, storeAccess, trustObjectStore } from '../../lab/inside/object-store.ts'
import { bucketOf } from '../../lab/inside/presign.ts'
import { sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { sharedHost } from './shared-host.ts'
import type { GuestOptions } from '../../lab/inside/guest.ts'
import type { Bucket, SignOptions, Upload } from '../../lab/inside/presign.ts'

export const POOL = '/var/lib/vmhostd/pool'
export const diskOf = (id: string): string => `${POOL}/disks/${id}/disk.raw`

/** More than any disk of these tests has. */
const PARTS = 64

export type SnapshotStage = {
  /** Set before the tests. */
  readonly bucket: Bucket
  begin(key: string, options?: SignOptions): Promise<Upload>
}

type StageOptions = {
  /** A word in each signed URL. */
  readonly canary?: string
  /** Makes what else the tests share. */
  readonly make?: () => unknown
}

/** An object store, and the installed daemon, which trusts its certificate; the tests of a file share them. */
export function snapshotStage({ canary, make = () => {} }: StageOptions = {}): SnapshotStage {
  let bucket: Bucket | undefined
  sharedHost({
    make: async () => {
      bucket = bucketOf(await startObjectStore(), canary)
      await trustObjectStore()
      await configure('snapshots', { upload_mbit_per_second: undefined, staging_quota_mib: undefined })
      await stagingEmpty()
      await make()
    },
    remove: () => bucket?.close(),
  })
  return {
    get bucket() {
      if (bucket === undefined) throw new Error(`${storeAccess.endpoint} is not up yet`)
      return bucket
    },
    begin: (key, options) => {
      if (bucket === undefined) throw new Error(`${storeAccess.endpoint} is not up yet`)
      return bucket.createUpload(key, PARTS, options)
    },
  }
}

/**
 * Creates a VM that never runs, with a disk whose last `randomMib` cannot be compressed; the rest is the demo guest and
 * a hole.
 */
export async function makeStopped(id: string, sizeMib: number, randomMib: number): Promise<void> {
  await mutate('PUT', `/v1/vms/${id}`, { ...guestRequest({ power: 'stopped' }), disk: { size_mib: sizeMib } })
  await settled(id, 'stopped')
  const seek = String(sizeMib - randomMib)
  const place = [`of=${diskOf(id)}`, 'bs=1M', `seek=${seek}`, `count=${randomMib}`]
  await sh('dd', 'if=/dev/urandom', ...place, 'conv=notrunc,fsync', 'status=none')
}

/** Creates a VM that runs, with its guest up. */
export async function makeRunning(id: string, ipv4: string, options: GuestOptions = {}): Promise<void> {
  await mutate('PUT', `/v1/vms/${id}`, guestRequest({ network: { ipv4_address: ipv4 }, ...options }))
  await settled(id, 'running')
  await until(`${id} serves its page`, () =>
    sh('curl', '--silent', '--fail', '--location', '--max-time', '2', `http://${ipv4}/`),
  )
}

/** Waits until the URLs of an upload have expired. Its client is another than the daemon. */
export const expired = ({ headUrl }: Upload): Promise<true> =>
  until('the URLs have expired', async () => {
    const args = ['--silent', '--head', '--output', '/dev/null', '--write-out', '%{http_code}']
    const status = await sh('curl', ...args, '--cacert', storeAccess.caFile, headUrl)
    return status === '403' ? true : undefined
  })

/** Lists the files in staging, by name. The first snapshot of a pool makes the directory. */
export const staged = (): readonly string[] =>
  existsSync(`${POOL}/staging`) ? readdirSync(`${POOL}/staging`) : []

export const stagingEmpty = (): Promise<true> =>
  until<true>('staging is empty', async () => {
    const left = staged()
    if (left.length > 0) throw new Error(`staging has ${left.join()}`)
    return true
  })
