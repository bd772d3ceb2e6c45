import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { zstdDecompressSync } from 'node:zlib'
import { deleteSnapshot, handOverUrls, startSnapshot } from '../src/commands/snapshots.ts'
import { SignedUrl } from '../src/core/storage/signed-url.ts'
import { reconcileStage } from './reconcile-stage.ts'
import type { TestContext } from 'node:test'
import type { SnapshotId, SnapshotRecord } from '../src/core/snapshot/record.ts'
import type { VmId } from '../src/core/vm/ids.ts'
import type { PartBody } from '../src/ports/object-store.ts'
import type { SnapshotUrls } from '../src/store/snapshot-urls.ts'
import type { FakeUpload } from './fakes/fake-object-store.ts'
import type { FakeDisk } from './fakes/fake-staging.ts'

export const MIB = 1024 * 1024
/** At what moves, before it must have come to rest. */
const LOOKS_MAX = 200

/** Two and a half parts of 1 MiB, which no compression makes smaller, and as much of a hole. */
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

/** The image in a finished object, as any zstd reads it. */
export const imageIn = (object: Buffer): Buffer => zstdDecompressSync(object)

/** A disk as an image, with its holes. */
export function imageOf({ content, sizeBytes }: FakeDisk): Buffer {
  const image = Buffer.alloc(sizeBytes)
  image.set(content)
  return image
}

/** Of a part as it is read from staging. */
export async function sha256Of(body: PartBody): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of body.chunks(new AbortController().signal)) hash.update(chunk)
  return hash.digest('hex')
}

export type SnapshotStageOptions = {
  readonly uploadsMax?: number
  readonly stagingQuotaMib?: number
  /** Of the state directory; at once unless given. */
  readonly flush?: () => Promise<void>
}

/** A VM that runs, and the owner of snapshots beside its worker. */
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
  // What is logged from here on is about snapshots.
  stage.lines.length = 0
  const id = 'snap-1' as SnapshotId
  const find = (of: SnapshotId = id): SnapshotRecord | undefined => store.snapshots.get(of)
  const snap = (of: SnapshotId = id): SnapshotRecord => {
    const record = find(of)
    assert.ok(record !== undefined, 'the snapshot is gone')
    return record
  }
  /** Until nothing moves any more before a timer. */
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
    /** The stage, and the code of what is in its way. */
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
    /** What staging has of a snapshot, part by part; fails where its record says something else. */
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
    /** As the configuration of the next daemon has it. */
    setQuotaMib: (mib: number): void => void (snapshots.stagingQuotaMib = mib),
    /** Time goes by, timer by timer. */
    after: async (ms: number): Promise<void> => {
      const untilMs = stage.clock.monotonicMs() + ms
      while (stage.clock.monotonicMs() < untilMs) {
        stage.clock.advance(Math.min(stage.clock.nextMs() ?? ms, untilMs - stage.clock.monotonicMs()))
        await quiet()
      }
    },
    stopSnapshots: () => stage.snapshots().stop(),
    /** Reconciler and owner end in good order, and others take their place. */
    restart: async (): Promise<void> => {
      await stage.stop()
      await stage.start()
      stage.snapshots().start()
      await quiet()
    },
  }
}
