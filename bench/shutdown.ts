/**
 * shutdown: a reboot of a host with 20 running guests, until all of them are saved and until all answer again, beside
 * 20 saves and 20 restores by hand, each in parallel.
 */
import { findLab, labExec, LAB_NODE, labReboot, labsBeside } from '../lab/lab.ts'
import { measurement, progress } from './measurement.ts'
import type { LabState } from '../lab/lab.ts'
import type { ByHand } from './shutdown-guests.ts'

const GUESTS = 20
const BOUND_MS = 600_000
const SHUTDOWN_BOUND_MS = 180_000

const [name] = labsBeside()
const found = name === undefined ? undefined : findLab(name)
if (found === undefined) throw new Error('this benchmark runs beside a lab: ./dev bench shutdown')

async function inside(lab: LabState, script: string, ...args: readonly string[]): Promise<string> {
  const argv = [LAB_NODE, '--no-warnings', `/src/${script}`, ...args, String(GUESTS)]
  const { code, stdout, stderr } = await labExec(lab, argv, {
    timeoutMs: BOUND_MS,
    onOutput: (chunk) => void process.stderr.write(chunk),
  })
  if (code !== 0) throw new Error(`${script} ${args.join(' ')}: ${stderr}`)
  return stdout
}

/** Returns when the daemon of the earlier boot had all guests saved, and how long that took it. */
async function savedIn(lab: LabState): Promise<{ readonly atMs: number; readonly tookMs: number }> {
  const { stdout } = await labExec(lab, ['journalctl', '--unit=vmhostd', '--boot=-1', '--output=json'])
  const entry = stdout
    .split('\n')
    .filter((line) => line.includes('guests ready for the shutdown'))
    .map((line) => JSON.parse(line) as { MESSAGE: string; __REALTIME_TIMESTAMP: string })
    .at(-1)
  if (entry === undefined) throw new Error('the daemon did not say that all guests are saved')
  const { saved, ms } = JSON.parse(entry.MESSAGE) as { readonly saved: number; readonly ms: number }
  if (saved !== GUESTS) throw new Error(`the daemon saved ${saved} of ${GUESTS} guests`)
  return { atMs: Number(entry.__REALTIME_TIMESTAMP) / 1000, tookMs: ms }
}

await inside(found, 'lab/inside/install.ts')
await inside(found, 'bench/shutdown-guests.ts', 'make')
const askedAtMs = Date.now()
const lab = await labReboot(found, { boundMs: SHUTDOWN_BOUND_MS })
const answersMs = Number(await inside(lab, 'bench/shutdown-guests.ts', 'answers'))
const { atMs, tookMs } = await savedIn(lab)
const savedMs = atMs - askedAtMs
progress(`saved after ${savedMs.toFixed(0)} ms, answered ${answersMs.toFixed(0)} ms after the boot began`)
const byHand = JSON.parse(await inside(lab, 'bench/shutdown-guests.ts', 'by-hand')) as ByHand

const common = { bench: 'shutdown', unit: 's', runs: 1 }
console.log(
  JSON.stringify([
    {
      ...measurement({
        ...common,
        metric: 'saved',
        ours: savedMs / 1000,
        reference: byHand.saveMs / 1000,
        reference_name: `${GUESTS} saves by hand in parallel, each flushed`,
      }),
      notes: [
        `from systemctl reboot until all ${GUESTS} guests of 128 MiB are saved and published`,
        `the daemon took ${(tookMs / 1000).toFixed(1)} s of it; before that, systemd stops what comes after it`,
      ],
    },
    {
      ...measurement({
        ...common,
        metric: 'answering',
        ours: answersMs / 1000,
        reference: byHand.restoreMs / 1000,
        reference_name: `${GUESTS} restores by hand in parallel, until all answer`,
      }),
      notes: [
        `from the start of systemd until all ${GUESTS} guests answer; the boot of the host and of the daemon are in it`,
        'ours are restored four at a time, with a device, a rule and a sandbox made for each, and their memory checked',
      ],
    },
  ]),
)
