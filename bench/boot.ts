/** boot: from a request for `running` to the guest's first ping, beside the same QEMU command by hand. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { closeController, mutate, remove, setPower, settled } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { mainPid } from '../lab/inside/shell.ts'
import { firstPing } from './first-ping.ts'
import { measurement, median, progress } from './measurement.ts'
import { commandOf } from './monitor-command.ts'

const VM = 'bench-boot'
const GUEST_ADDRESS = '192.0.2.20'
const SOCKET_FOLDER = '/run/bench-boot'
const RUNS = 10

mkdirSync(SOCKET_FOLDER)
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
  // The first run of each warms caches for both.
  if (run === 0) continue
  ours.push(daemon)
  byHand.push(hand)
  progress(`run ${run} of ${RUNS}: daemon ${daemon.toFixed(0)} ms, by hand ${hand.toFixed(0)} ms`)
}
await remove(VM)
rmSync(SOCKET_FOLDER, { recursive: true })
closeController()
const reference = median(byHand)
const common = {
  bench: 'boot',
  unit: 'ms',
  reference,
  reference_name: 'the same QEMU command alone: no unit, its serial output thrown away',
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
  const sentAt = performance.now()
  await setPower(VM, 'running')
  const ms = (await reply) - sentAt
  command = commandOf(await mainPid(`vmhost-${VM}`))
  await settled(VM, 'running')
  await setPower(VM, 'stopped')
  await settled(VM, 'stopped')
  return ms
}

/**
 * Boots the same guest with its monitor alone. Its serial output goes to /dev/null. A unit without a terminal would
 * write it to the journal, which takes processor time from an emulated guest and makes the reference slower than the
 * daemon.
 */
async function bootByHand(argv: readonly string[]): Promise<number> {
  const [program = '', ...args] = argv.map((word) =>
    word.replace(`/run/vmhostd/vm/${VM}/`, `${SOCKET_FOLDER}/`),
  )
  const reply = firstPing(GUEST_ADDRESS)
  const startedAt = performance.now()
  const monitor = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const gone = once(monitor, 'exit')
  try {
    return (await reply) - startedAt
  } finally {
    monitor.kill('SIGKILL')
    await gone
  }
}
