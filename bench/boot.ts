/** boot: from an accepted `PUT power running` to the guest's first ping, beside the same QEMU command by hand. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { closeController, mutate, remove, setPower, settled } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { firstPing } from './first-ping.ts'
import { measurement, median, progress } from './measurement.ts'

const VM = 'bench-boot'
const GUEST_ADDRESS = '192.0.2.20'
const UNIT = 'bench-by-hand'
const RUNS = 10

await mutate(
  'PUT',
  `/v1/vms/${VM}`,
  guestRequest({ power: 'stopped', network: { ipv4_address: GUEST_ADDRESS } }),
)
await settled(VM, 'stopped')
const ours: number[] = []
const byHand: number[] = []
let command: readonly string[] = []
for (let run = 0; run <= RUNS; run += 1) {
  const daemon = await bootByDaemon()
  const hand = await bootByHand(command)
  // The first of each warms caches for both.
  if (run === 0) continue
  ours.push(daemon)
  byHand.push(hand)
  progress(`run ${run} of ${RUNS}: daemon ${daemon.toFixed(0)} ms, by hand ${hand.toFixed(0)} ms`)
}
await remove(VM)
closeController()
const reference = median(byHand)
const common = {
  bench: 'boot',
  unit: 'ms',
  reference,
  reference_name: 'the same QEMU command under systemd-run',
  runs: RUNS,
}
console.log(
  JSON.stringify([
    measurement({ ...common, metric: 'added_ms', ours: median(ours) - reference }),
    measurement({ ...common, metric: 'first_ping_ms', ours: median(ours) }),
  ]),
)

async function bootByDaemon(): Promise<number> {
  const reply = firstPing(GUEST_ADDRESS)
  await setPower(VM, 'running')
  const acceptedAt = performance.now()
  const ms = (await reply) - acceptedAt
  command = commandOf(`vmhost-${VM}`)
  await settled(VM, 'running')
  await setPower(VM, 'stopped')
  await settled(VM, 'stopped')
  return ms
}

/** The command line of a unit's main process, as it runs. */
function commandOf(unit: string): readonly string[] {
  const pid = execFileSync('systemctl', ['show', '--value', '--property=MainPID', unit], {
    encoding: 'utf8',
  }).trim()
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    .split('\0')
    .filter((word) => word !== '')
}

async function bootByHand(argv: readonly string[]): Promise<number> {
  const reply = firstPing(GUEST_ADDRESS)
  // Its runtime directory is the daemon's business; everything else is to the letter.
  const identical = argv.map((word) => word.replace(`/run/vmhostd/vm/${VM}/`, '/run/'))
  const startedAt = performance.now()
  const started = spawn('systemd-run', ['--quiet', `--unit=${UNIT}`, '--service-type=exec', ...identical], {
    stdio: 'inherit',
  })
  await once(started, 'exit')
  const ms = (await reply) - startedAt
  execFileSync('systemctl', ['kill', '--signal=KILL', UNIT])
  execFileSync(
    'sh',
    [
      '-c',
      `while systemctl is-active --quiet ${UNIT}; do sleep 0.02; done; systemctl reset-failed ${UNIT} || true`,
    ],
    { stdio: 'ignore' },
  )
  return ms
}
