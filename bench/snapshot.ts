/**
 * snapshot: a disk to an object store, beside `zstd | curl` of the same bytes; and the effect on the guest, the daemon
 * and a neighbour.
 */
import { writeFileSync } from 'node:fs'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { leave, view } from '../lab/inside/console.ts'
import { closeController, mutate, remove, settled } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { startObjectStore, trustObjectStore } from '../lab/inside/object-store.ts'
import { bucketOf } from '../lab/inside/presign.ts'
import { mainPid, sh, unitProperty } from '../lab/inside/shell.ts'
import { makeSleeper, sleeper } from '../lab/inside/sleepers.ts'
import { completed, deleteSnapshot, startSnapshot } from '../lab/inside/snapshots.ts'
import { typeInto } from '../lab/inside/type-into.ts'
import { consoleEcho } from './console-keys.ts'
import { measurement, median, percentile, progress } from './measurement.ts'
import { memoryMib, peakOfChildrenMib } from './process-memory.ts'
import { diskOf, makeDataVm } from './snapshot-disk.ts'
import type { Snapshot } from '../lab/inside/snapshots.ts'

const RUNS = 5
const SIZE_MIB = 2048
const DATA_MIB = 700
const PART_SIZE_MIB = 64
const PARTS = 32
const [STILL, NEIGHBOUR] = ['bench-still', 'bench-neighbour']
const LIVE = sleeper('bench-live', 1)
const WRITTEN_MIB = 24
const KEYS = 300
const KEY_EVERY_MS = 10
/** $1: the disk. $2: the certificate of the store's authority. $3: where the object goes. */
const CURL = 'curl --silent --fail --cacert "$2" --upload-file - "$3"'
const BY_HAND = `set -o pipefail; zstd -T2 -3 -q <"$1" | ${CURL}`
/** Makes the digests that a snapshot has: the SHA-256 of the disk, and the SHA-256 and the MD5 of what is sent. */
const BY_HAND_WITH_DIGESTS = `set -o pipefail
openssl dgst -sha256 "$1" >/dev/null &
zstd -T2 -3 -q <"$1" | tee >(openssl dgst -sha256 >/dev/null) >(openssl dgst -md5 >/dev/null) | ${CURL} && wait $!`

const access = await startObjectStore()
await trustObjectStore()
const bucket = bucketOf(access)
await makeDataVm(STILL, SIZE_MIB, DATA_MIB)
progress(`a disk of ${SIZE_MIB} MiB with ${DATA_MIB} MiB of data is ready`)
const ours: number[] = []
const byHand: number[] = []
const byHandWithDigests: number[] = []
const peaks: number[] = []
const peaksByHand: number[] = []
let storedMib = 0
for (let run = 0; run <= RUNS; run += 1) {
  const one = await bySnapshot(run)
  const hand = await byZstdAndCurl(run)
  const digesting = await byZstdAndCurl(run, { script: BY_HAND_WITH_DIGESTS })
  // The first run of each warms caches for the later ones.
  if (run === 0) continue
  ours.push(one.mibps)
  peaks.push(one.peakMib)
  byHand.push(hand.mibps)
  byHandWithDigests.push(digesting.mibps)
  peaksByHand.push(hand.peakMib)
  storedMib = one.storedMib
  progress(
    `run ${run} of ${RUNS}: ${one.mibps.toFixed(0)} MiB/s, by hand ${hand.mibps.toFixed(0)}, with digests ${digesting.mibps.toFixed(0)}; peak ${one.peakMib.toFixed(0)} MiB above idle, by hand ${hand.peakMib.toFixed(0)}`,
  )
}
const pauses = await measurePauses()
const echoes = await measureNeighbour()
await remove(STILL)
bucket.close()
closeController()
report()

type Run = { readonly mibps: number; readonly peakMib: number }

/**
 * Measures image data per second, from the accepted request to the completed object, and the daemon's memory meanwhile.
 */
async function bySnapshot(run: number): Promise<Run & { readonly storedMib: number }> {
  const key = `snapshot-${run}`
  const upload = await bucket.createUpload(key, PARTS)
  const pid = await mainPid('vmhostd')
  const idleMib = memoryMib(pid)
  // This resets the peak (proc(5), /proc/pid/clear_refs).
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
  const startedAt = performance.now()
  await startSnapshot(key, STILL, upload, { partSizeMib: PART_SIZE_MIB })
  const { stored_size_mib } = await completed(key, 600_000)
  const mibps = DATA_MIB / ((performance.now() - startedAt) / 1000)
  const peakMib = memoryMib(pid, 'VmHWM') - idleMib
  await deleteSnapshot(key)
  await bucket.remove(key)
  return { mibps, peakMib, storedMib: stored_size_mib ?? 0 }
}

/** Sends the same bytes to the same server in one stream by hand. `kindly` comes before the command. */
async function byZstdAndCurl(
  run: number,
  { script = BY_HAND, kindly = [] }: { readonly script?: string; readonly kindly?: readonly string[] } = {},
): Promise<Run> {
  const key = `by-hand-${run}`
  const url = await bucket.putUrl(key)
  const startedAt = performance.now()
  const [program, ...args] = [...kindly, 'bash', '-c', script, 'bash', diskOf(STILL), access.caFile, url]
  const shell = spawn(program ?? 'bash', args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const peakMib = await peakOfChildrenMib(shell)
  if (shell.exitCode !== 0) throw new Error(`zstd | curl ended with status ${shell.exitCode}`)
  const mibps = DATA_MIB / ((performance.now() - startedAt) / 1000)
  await bucket.remove(key)
  return { mibps, peakMib }
}

/** Measures how long a running guest is paused that has written unflushed data. */
async function measurePauses(): Promise<readonly Snapshot[]> {
  await makeSleeper(LIVE, { sleepAfterIdleSeconds: 0 })
  const taken: Snapshot[] = []
  for (let run = 0; run < RUNS; run += 1) {
    await typeInto(LIVE.id, `dd if=/dev/urandom of=/root/written bs=1M count=${WRITTEN_MIB} 2>/dev/null`)
    const key = `live-${run}`
    await startSnapshot(key, LIVE.id, await bucket.createUpload(key, PARTS))
    taken.push(await completed(key))
    await deleteSnapshot(key)
    await bucket.remove(key)
  }
  await remove(LIVE.id)
  return taken
}

type Echoes = { readonly calm: number[]; readonly disturbed: number[]; readonly byHand: number[] }

/**
 * Measures the echo of a key on the console of another VM: before a snapshot, during one, and during the same by hand.
 */
async function measureNeighbour(): Promise<Echoes> {
  await mutate('PUT', `/v1/vms/${NEIGHBOUR}`, guestRequest({ power: 'paused' }))
  await settled(NEIGHBOUR, 'paused')
  const unit = `vmhost-${NEIGHBOUR}.service`
  // The monitor there would read some of the keys, so it is stopped.
  await sh('systemctl', 'kill', '--signal=STOP', unit)
  const tty = await unitProperty(unit, 'TTYPath')
  const echo = spawn(process.execPath, [`${import.meta.dirname}/console-echo.ts`, tty], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(echo.stdout, 'data')
  const viewer = await view(NEIGHBOUR)
  const before = await consoleEcho(viewer, KEYS, KEY_EVERY_MS)
  const key = 'neighboured'
  await startSnapshot(key, STILL, await bucket.createUpload(key, PARTS), { partSizeMib: PART_SIZE_MIB })
  const during = async (work: Promise<unknown>): Promise<number[]> => {
    const samples: number[] = []
    const state = { ended: false }
    const end = work.finally(() => (state.ended = true))
    while (!state.ended) samples.push(...(await consoleEcho(viewer, 1, KEY_EVERY_MS)))
    await end
    return samples
  }
  const disturbed = await during(completed(key, 600_000))
  const hand = await during(byZstdAndCurl(RUNS + 1, { kindly: ['nice', '-n', '19'] }))
  echo.kill()
  await leave(viewer)
  await sh('systemctl', 'kill', '--signal=CONT', unit)
  await deleteSnapshot(key)
  await bucket.remove(key)
  await remove(NEIGHBOUR)
  return { calm: before, disturbed, byHand: hand }
}

function report(): void {
  const common = { bench: 'snapshot', runs: RUNS }
  const speed = { ...common, metric: 'mibps', unit: 'MiB/s', ours: median(ours) }
  const pausedMs = pauses.map(({ paused_ms }) => paused_ms ?? Infinity)
  const consistencies = new Set(pauses.map(({ consistency }) => consistency))
  console.log(
    JSON.stringify([
      {
        ...measurement({
          ...speed,
          reference: median(byHand),
          reference_name: '`zstd -T2 -3 | curl` of the same disk to the same server',
        }),
        notes: [`${DATA_MIB} MiB of data in ${SIZE_MIB} MiB of disk become ${storedMib} MiB in the store`],
      },
      measurement({
        ...speed,
        reference: median(byHandWithDigests),
        reference_name:
          'the same, which also makes the digests that ours makes: `openssl dgst` beside it, behind `tee`',
      }),
      {
        ...measurement({
          ...common,
          metric: 'paused_ms',
          unit: 'ms',
          ours: median(pausedMs),
          reference: percentile(pausedMs, 1),
          reference_name: 'the longest of them',
          limit: 50,
        }),
        notes: [
          `a running guest that has just written ${WRITTEN_MIB} MiB; consistency: ${[...consistencies].join()}`,
        ],
      },
      measurement({
        ...common,
        metric: 'rss_peak_mib',
        unit: 'MiB',
        ours: percentile(peaks, 1),
        reference: percentile(peaksByHand, 1),
        reference_name: '`zstd -T2 -3` and `curl` together; ours is above idle',
      }),
      {
        ...measurement({
          ...common,
          metric: 'neighbour_echo_ms',
          unit: 'ms',
          ours: percentile(echoes.disturbed, 0.99),
          reference: percentile(echoes.byHand, 0.99),
          reference_name: 'p99 while `nice -n 19 zstd -T2 -3 | curl` does the same',
          runs: echoes.disturbed.length,
        }),
        notes: [
          `medians: ${median(echoes.disturbed).toFixed(1)} ms, by hand ${median(echoes.byHand).toFixed(1)}, without either ${median(echoes.calm).toFixed(1)} (p99 ${percentile(echoes.calm, 0.99).toFixed(1)})`,
        ],
      },
    ]),
  )
}
