import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { zstdDecompressSync } from 'node:zlib'
import { deleteSnapshot, handOverUrls, startSnapshot } from '../src/commands/snapshots/snapshots.ts'
import { SignedUrl } from '../src/core/outbound/signed-url.ts'
import { reconcileStage } from './reconcile-stage.ts'
import type { TestContext } from 'node:test'
import type { SnapshotId, SnapshotRecord, SnapshotUrls } from '../src/core/snapshots/record.ts'
import type { VmId } from '../src/core/ids.ts'
import type { PartBody } from '../src/ports/object-store.ts'
import type { FakeUpload } from './fakes/fake-object-store.ts'
import type { FakeDisk } from './fakes/fake-staging.ts'

export const MIB = 1024 * 1024
/** Maximum number of looks before moving work must have come to rest. */
const LOOKS_MAX = 200

/** Two and a half parts of 1 MiB, which no compression makes smaller, and a hole of the same size. */
export const bigDisk = (seed: string): FakeDisk => ({ content: noise(seed, 2.5 * MIB), sizeBytes: 5 * MIB })

export function noise(seed: string, bytes: number): Buffer {
  const hash = createHash('shake256', { outputLength: bytes })
  return hash.update(seed).digest()
}

/** All the URLs of an upload. */
export const urlsOf = (upload: FakeUpload, parts = 4): SnapshotUrls => ({
  firstPart: 1,
  parts: upload.partUrls(parts).map((url) => new SignedUrl(url)),
  complete: new SignedUrl(upload.completeUrl),
  head: new SignedUrl(upload.headUrl),
})

/** Decompresses the image in a finished object, as any zstd does. */
export const imageIn = (object: Buffer): Buffer => zstdDecompressSync(object)

/** Returns a disk as an image, with its holes. */
export function imageOf({ content, sizeBytes }: FakeDisk): Buffer {
  const image = Buffer.alloc(sizeBytes)
  image.set(content)
  return image
}

/** Returns the digest of a part as it is read from staging. */
export async function sha256Of(body: PartBody): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of body.chunks(new AbortController().signal)) hash.update(chunk)
  return hash.digest('hex')
}

export type SnapshotStageOptions = {
  readonly uploadsMax?: number
  readonly stagingQuotaMib?: number
  /** Flush of the state directory; immediate unless given. */
  readonly flush?: () => Promise<void>
}

/** Starts a running VM, and the owner of snapshots beside its worker. */
export async function snapshotStage(
  t: TestContext,
  { uploadsMax = 4, stagingQuotaMib = 64, ...disk }: SnapshotStageOptions = {},
) {
  const snapshots = { uploadsMax, stagingQuotaMib }
  const stage = await reconcileStage(t, { ...disk, snapshots })
  const { store, host, context, id: vmId } = stage
  stage.snapshots().start()
  stage.create()
  await stage.idle()
  host.diskContents.set(vmId, bigDisk('the disk'))
  host.monitor.agents.add(vmId)
  // Only lines about snapshots are kept from here on.
  stage.lines.length = 0
  const id = 'snap-1' as SnapshotId
  const find = (of: SnapshotId = id): SnapshotRecord | undefined => store.snapshots.get(of)
  const snap = (of: SnapshotId = id): SnapshotRecord => {
    const record = find(of)
    assert.ok(record !== undefined, 'the snapshot is gone')
    return record
  }
  /** Resolves when nothing moves any more before a timer. */
  const quiet = async (): Promise<void> => {
    let before = ''
    for (let look = 0; look < LOOKS_MAX; look += 1) {
      await stage.turns()
      const revisions = store.snapshots.list({ limit: 100 }).map(({ revision }) => revision)
      const now = JSON.stringify([revisions, host.objectStore.requests.map(({ bytes }) => bytes)])
      if (now === before) return
      before = now
    }
    assert.fail(`there was no rest after ${LOOKS_MAX} looks`)
  }
  return {
    ...stage,
    id,
    vmId,
    find,
    snap,
    quiet,
    upload: host.objectStore.openUpload('image-1'),
    /** Stage of the snapshot, and the code of its trouble. */
    shown: (of: SnapshotId = id): string => {
      const { stage: at, trouble } = snap(of)
      return trouble === undefined ? at : `${at} ${trouble.code}`
    },
    take: (urls: SnapshotUrls, of: SnapshotId = id, vm: VmId = vmId): void => {
      const result = startSnapshot(context, of, { vmId: vm, partMib: 1, urls })
      assert.ok(result.ok, JSON.stringify(result))
    },
    handOver: (urls: SnapshotUrls, of: SnapshotId = id): void => {
      const result = handOverUrls(context, of, urls)
      assert.ok(result.ok, JSON.stringify(result))
    },
    drop: (of: SnapshotId = id): void => void deleteSnapshot(context, of),
    staged: async (): Promise<number> => (await host.staging.list()).length,
    /** Says which parts of a snapshot staging has. Fails if staging contradicts the snapshot's record. */
    keeps: async (of: SnapshotId = id): Promise<'all' | 'unsent' | 'none'> => {
      const record = snap(of)
      const listed = (await host.staging.list()).find(({ stagingId }) => stagingId === record.stagingId)
      assert.equal(listed?.packedBytes ?? 0, record.staged.bytes, `${of}: staged by its record`)
      if (record.staged.bytes === 0) return 'none'
      for (const part of store.snapshots.parts(of)) {
        if (part.etag !== undefined && !record.staged.isWhole) continue
        const sha256 = await sha256Of(host.staging.partBody(record.stagingId, part))
        assert.equal(sha256, part.sha256, `${of}: part ${part.number} in staging`)
      }
      return record.staged.isWhole ? 'all' : 'unsent'
    },
    /** Sets the quota in the configuration of the next daemon. */
    setQuotaMib: (mib: number): void => void (snapshots.stagingQuotaMib = mib),
    /** Lets time pass, timer by timer. */
    after: async (ms: number): Promise<void> => {
      const untilMs = stage.clock.monotonicMs() + ms
      while (stage.clock.monotonicMs() < untilMs) {
        stage.clock.advance(Math.min(stage.clock.nextMs() ?? ms, untilMs - stage.clock.monotonicMs()))
        await quiet()
      }
    },
    stopSnapshots: () => stage.snapshots().stop(),
    /** Stops reconciler and owner in order, and starts others in their place. */
    restart: async (): Promise<void> => {
      await stage.stop()
      await stage.start()
      stage.snapshots().start()
      await quiet()
    },
  }
}
