/**
 * image: from a create request with a zstd object by signed URL to a running VM, beside a download by hand and a boot.
 */
import { existsSync } from 'node:fs'
import { closeController, mutate, remove, settled, call } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { startObjectStore, trustObjectStore } from '../lab/inside/object-store.ts'
import { bucketOf } from '../lab/inside/presign.ts'
import { until } from '../lab/inside/until.ts'
import { completed, deleteSnapshot, startSnapshot } from '../lab/inside/snapshots.ts'
import { byHand, HAND_WAYS } from './image-by-hand.ts'
import { measurement, median, progress } from './measurement.ts'
import { makeDataVm } from './snapshot-disk.ts'

const RUNS = 5
const SIZE_MIB = 2048
const DATA_MIB = 700
const [SOURCE, TARGET, KEY] = ['bench-image-source', 'bench-image', 'bench-image.img.zst']
/** The daemon's pool in the lab. */
const IMAGES = '/var/lib/vmhostd/pool/images'

const access = await startObjectStore()
await trustObjectStore()
const bucket = bucketOf(access)
await makeDataVm(SOURCE, SIZE_MIB, DATA_MIB)
const upload = await bucket.createUpload(KEY, 32)
await startSnapshot(KEY.split('.')[0] ?? '', SOURCE, upload, { partSizeMib: 64 })
const { sha256 = '', stored_size_mib = 0 } = await completed(KEY.split('.')[0] ?? '', 600_000)
progress(`an image of ${SIZE_MIB} MiB is ${stored_size_mib} MiB in the store`)
const ours: number[] = []
const downloads = HAND_WAYS.map((way) => ({ way, ms: [] as number[] }))
const boots: number[] = []
for (let run = 0; run <= RUNS; run += 1) {
  const fetched = await toRunning()
  const there = await toRunning()
  await forget()
  const taken: string[] = []
  for (const { way, ms } of downloads) {
    const source = { url: await bucket.getUrl(KEY), caFile: access.caFile, sha256 }
    const tookMs = await byHand(way, source)
    taken.push(`${way.name} ${tookMs.toFixed(0)} ms`)
    if (run > 0) ms.push(tookMs)
  }
  // The first run of each warms caches for the later ones.
  if (run === 0) continue
  ours.push(fetched)
  boots.push(there)
  progress(
    `run ${run} of ${RUNS}: ${fetched.toFixed(0)} ms; by hand ${taken.join(', ')}; boot of what is there ${there.toFixed(0)} ms`,
  )
}
const [fastest] = downloads
  .filter(({ way }) => way.digests)
  .map(({ way, ms }) => ({ name: way.name, ms: median(ms) }))
  .toSorted((a, b) => a.ms - b.ms)
if (fastest === undefined) throw new Error('no way by hand makes the digest')
await deleteSnapshot(KEY.split('.')[0] ?? '')
await remove(SOURCE)
await bucket.remove(KEY)
bucket.close()
closeController()
console.log(
  JSON.stringify([
    {
      ...measurement({
        bench: 'image',
        metric: 'to_running_ms',
        unit: 'ms',
        ours: median(ours),
        reference: fastest.ms + median(boots),
        reference_name: `${fastest.name}, and a create of an image that is there`,
        runs: RUNS,
      }),
      notes: [
        `median to run what is there: ${median(boots).toFixed(0)} ms`,
        ...downloads.map(({ way, ms }) => `by hand: ${median(ms).toFixed(0)} ms for ${way.name}`),
        `the reference is the fastest of those that verify the SHA-256 of ${SIZE_MIB} MiB, as ours does`,
      ],
    },
  ]),
)

/** Measures from the accepted create until the VM is observed running. Then removes it; its image stays. */
async function toRunning(): Promise<number> {
  const rootfs = { url: await bucket.getUrl(KEY), sha256 }
  const request = { ...guestRequest({ image: { rootfs } }), disk: { size_mib: SIZE_MIB } }
  const startedAt = performance.now()
  await mutate('PUT', `/v1/vms/${TARGET}`, request)
  await settled(TARGET, 'running', 300_000)
  const ms = performance.now() - startedAt
  await remove(TARGET)
  return ms
}

async function forget(): Promise<void> {
  const { status } = await call('DELETE', `/v1/images/${sha256}`)
  if (status !== 202) throw new Error(`DELETE of the image: ${status}`)
  // The answer comes before the pool is asked.
  await until('the image is gone', async () => (existsSync(`${IMAGES}/${sha256}`) ? undefined : true))
}
