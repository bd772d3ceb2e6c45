/** image: from a create request with a zstd object by signed URL to a running VM, beside `curl | zstd -d` and a boot. */
import { rmSync } from 'node:fs'
import { closeController, mutate, remove, settled, call } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { startObjectStore, trustObjectStore } from '../lab/inside/object-store.ts'
import { bucketOf } from '../lab/inside/presign.ts'
import { sh } from '../lab/inside/shell.ts'
import { completed, deleteSnapshot, startSnapshot } from '../lab/inside/snapshots.ts'
import { measurement, median, progress } from './measurement.ts'
import { makeDataVm } from './snapshot-disk.ts'

const RUNS = 5
const SIZE_MIB = 2048
const DATA_MIB = 700
const [SOURCE, TARGET, KEY] = ['bench-image-source', 'bench-image', 'bench-image.img.zst']
const COPY = '/var/lib/vmhostd/pool/bench-image.raw'

const access = await startObjectStore()
await trustObjectStore()
const bucket = bucketOf(access)
await makeDataVm(SOURCE, SIZE_MIB, DATA_MIB)
const upload = await bucket.createUpload(KEY, 32)
await startSnapshot(KEY.split('.')[0] ?? '', SOURCE, upload, { partSizeMib: 64 })
const { sha256 = '', stored_size_mib = 0 } = await completed(KEY.split('.')[0] ?? '', 600_000)
progress(`an image of ${SIZE_MIB} MiB is ${stored_size_mib} MiB in the store`)
const ours: number[] = []
const downloads: number[] = []
const boots: number[] = []
for (let run = 0; run <= RUNS; run += 1) {
  const fetched = await toRunning()
  const there = await toRunning()
  await forget()
  const download = await byCurlAndZstd()
  // The first run of each warms caches for the later ones.
  if (run === 0) continue
  ours.push(fetched)
  boots.push(there)
  downloads.push(download)
  progress(
    `run ${run} of ${RUNS}: ${fetched.toFixed(0)} ms; download by hand ${download.toFixed(0)} ms, boot of what is there ${there.toFixed(0)} ms`,
  )
}
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
        reference: median(downloads) + median(boots),
        reference_name: '`curl | zstd -d` of it, and a create of an image that is there',
        runs: RUNS,
      }),
      notes: [
        `by hand ${median(downloads).toFixed(0)} ms without a digest, and ${median(boots).toFixed(0)} ms to run`,
        `ours verifies the SHA-256 of ${SIZE_MIB} MiB on the way`,
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
  if (status !== 204) throw new Error(`DELETE of the image: ${status}`)
}

/** Flushes at the end, because an image must be durable before a VM is made of it. */
async function byCurlAndZstd(): Promise<number> {
  const url = await bucket.getUrl(KEY)
  const script =
    'set -o pipefail; curl --silent --fail --cacert "$1" "$2" | zstd -q -d -f --sparse -o "$3" && sync "$3"'
  const startedAt = performance.now()
  await sh('bash', '-c', script, 'bash', access.caFile, url, COPY)
  const ms = performance.now() - startedAt
  rmSync(COPY)
  return ms
}
