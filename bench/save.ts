/**
 * save: a guest's memory to the pool, beside `dd` of as many bytes to the same file system;
 * and a save that is given up.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { closeController, remove, setPower } from '../lab/inside/controller.ts'
import { doneSteps } from '../lab/inside/done-steps.ts'
import { sh } from '../lab/inside/shell.ts'
import { asleep, awake, makeSleeper, sleepAfter, sleeper } from '../lab/inside/sleepers.ts'
import { typeInto } from '../lab/inside/type-into.ts'
import { measureGivenUp } from './given-up.ts'
import { measurement, median, progress } from './measurement.ts'
import { WakeFloor } from './wake-floor.ts'
import type { Sleeper } from '../lab/inside/sleepers.ts'

const RUNS = 10
const MIB = 1024 * 1024
const MEMORY_MIB = 512
/** MiB that the guest keeps in a tmpfs, and MiB that it had there and removed. */
const KEPT_MIB = 128
const REMOVED_MIB = 128
const BYTES = '/dev/shm/bench-save'
const COPY = '/var/lib/vmhostd/pool/bench-save'

type LogLine = {
  readonly vm_id?: string
  readonly written_bytes?: number
  readonly ms?: number
}

type Save = {
  readonly writtenMib: number
  /** Duration of the whole step: from the decision until the saved guest is published. */
  readonly stepMs: number
  /** Part of that for flushing, checking and publishing the monitor's file. */
  readonly publishMs: number
}

const [one, handOne] = [sleeper('bench-save', 1), sleeper('bench-save-hand', 2)]
await makeGuest(handOne)
await asleep(handOne.id)
const floor = await WakeFloor.ofAsleep(handOne)
const usedMib = await makeGuest(one)
progress(`the guest uses ${usedMib.toFixed(0)} of ${MEMORY_MIB} MiB`)

const saves: Save[] = []
const byDd: number[] = []
const byHand: number[] = []
let wokenAt: string | undefined
for (let run = 0; run <= RUNS; run += 1) {
  const { observed } = await asleep(one.id)
  const save = await lastSave(observed.saved_state?.saved_at ?? '')
  const dd = await ddMibps(save.writtenMib)
  const hand = (await floor.restore()).save
  const handMibps = hand.bytes / MIB / (hand.ms / 1000)
  await setPower(one.id, 'running')
  wokenAt = (await awake(one.id, wokenAt)).observed.last_wake?.at
  // The first run of each warms caches for the later ones.
  if (run === 0) continue
  saves.push(save)
  byDd.push(dd)
  byHand.push(handMibps)
  progress(
    `run ${run} of ${RUNS}: ${save.writtenMib.toFixed(0)} MiB in ${save.stepMs.toFixed(0)} ms, ${save.publishMs.toFixed(0)} ms of it to publish; dd ${dd.toFixed(0)} MiB/s, by hand ${handMibps.toFixed(0)}`,
  )
}
const givenUp = await measureGivenUp(one, MEMORY_MIB)
await remove(one.id)
await floor.takeAway()
await sh('rm', '-f', BYTES)
closeController()

const middle = (of: (save: Save) => number): number => median(saves.map(of))
const common = { bench: 'save', runs: RUNS }
const speed = {
  ...common,
  metric: 'mibps',
  unit: 'MiB/s',
  ours: middle(({ writtenMib, stepMs }) => (writtenMib / stepMs) * 1000),
}
console.log(
  JSON.stringify([
    {
      ...measurement({
        ...speed,
        reference: median(byDd),
        reference_name: 'dd bs=1M conv=fsync of as many bytes, from memory to the pool',
      }),
      notes: [
        `a save takes ${middle(({ stepMs }) => stepMs).toFixed(0)} ms from its decision to its publication`,
        `${middle(({ publishMs }) => publishMs).toFixed(0)} ms of it are the flush, the checksum beside it, and the publication`,
      ],
    },
    measurement({
      ...speed,
      reference: median(byHand),
      reference_name:
        'the same save of such a guest by hand: QMP `stop` and `migrate`, then `sync`; no checksum',
    }),
    {
      ...measurement({
        ...common,
        metric: 'written_mib',
        unit: 'MiB',
        ours: middle(({ writtenMib }) => writtenMib),
        reference: usedMib,
        reference_name: `memory in use in the guest, of ${MEMORY_MIB} MiB`,
      }),
      notes: [
        `in use: MemTotal less MemFree, as the guest reports them; MemTotal is without what its kernel took at boot`,
        `the guest had written ${REMOVED_MIB} MiB more, and removed them`,
      ],
    },
    ...givenUp,
  ]),
)

function fill(name: string, mib: number): string {
  return `dd if=/dev/urandom of=/tmp/${name} bs=1M count=${mib} 2>/dev/null`
}

/** Makes a guest that is about to sleep, and returns the MiB of memory that it uses. */
async function makeGuest(guest: Sleeper): Promise<number> {
  await makeSleeper(guest, { memoryMib: MEMORY_MIB, sleepAfterIdleSeconds: 0 })
  await typeInto(guest.id, fill('kept', KEPT_MIB))
  await typeInto(guest.id, `${fill('removed', REMOVED_MIB)}; rm /tmp/removed; sleep 3`)
  const mib = await usedInGuest(guest)
  await sleepAfter(guest.id, 1, MEMORY_MIB)
  return mib
}

async function usedInGuest({ id }: Sleeper): Promise<number> {
  const text = await typeInto(id, 'grep -E "^Mem(Total|Free):" /proc/meminfo')
  const [total, free] = ['Total', 'Free'].map((name) =>
    Number(new RegExp(`Mem${name}: +([0-9]+) kB`).exec(text)?.[1]),
  ) as [number, number]
  if (!(total > free)) throw new Error(`the guest does not report its memory: ${text}`)
  return (total - free) / 1024
}

/** Reads the save from the daemon's log. */
async function lastSave(savedAt: string): Promise<Save> {
  const since = `@${Math.floor(Date.parse(savedAt) / 1000) - 5}`
  const log = await sh('journalctl', '--unit=vmhostd', '--output=cat', '--since', since)
  const lines = log
    .split('\n')
    .filter((text) => text.startsWith('{'))
    .map((text) => JSON.parse(text) as LogLine)
    .filter(({ vm_id }) => vm_id === one.id)
  const published = lines.findLast(({ written_bytes }) => written_bytes !== undefined)
  const done = (await doneSteps(since)).findLast(
    ({ vmId, step }) => vmId === one.id && step === 'monitor.ensure-saved',
  )
  const { written_bytes, ms } = published ?? {}
  if (written_bytes === undefined || ms === undefined || done === undefined)
    throw new Error(`the daemon's log has no save of ${one.id}`)
  return { writtenMib: written_bytes / MIB, stepMs: done.elapsedMs, publishMs: ms }
}

async function ddMibps(mib: number): Promise<number> {
  const count = Math.max(1, Math.round(mib))
  await sh('dd', 'if=/dev/urandom', `of=${BYTES}`, 'bs=1M', `count=${count}`)
  // dd reports on standard error.
  const { stderr } = await promisify(execFile)('dd', [`if=${BYTES}`, `of=${COPY}`, 'bs=1M', 'conv=fsync'])
  await sh('rm', COPY)
  const seconds = Number(/, ([0-9.e-]+) s,/.exec(stderr)?.[1])
  if (!(seconds > 0)) throw new Error(`dd does not report its time: ${stderr}`)
  return count / seconds
}
