/**
 * Guests of the benchmark of a shutdown, inside the host that reboots. `make` makes them, `answers` waits until all of
 * them answer after the boot, and `by-hand` saves and restores them without the daemon.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { closeController } from '../lab/inside/controller.ts'
import { exchange } from '../lab/inside/first-packets.ts'
import { mainPid, sh } from '../lab/inside/shell.ts'
import { makeSleeper, sleepAfter, sleeper } from '../lab/inside/sleepers.ts'
import { until } from '../lab/inside/until.ts'
import { saveGuest } from '../src/host/qemu/qemu-saving.ts'
import { QmpClient } from '../src/host/qemu/qmp.ts'
import { HandQmp } from './hand-qmp.ts'
import { commandOf } from './monitor-command.ts'
import { progress } from './measurement.ts'
import type { Sleeper } from '../lab/inside/sleepers.ts'

/** Milliseconds of the two halves by hand. */
export type ByHand = { readonly saveMs: number; readonly restoreMs: number }

const DISKS = '/var/lib/vmhostd/pool/disks'
const SOCKETS = '/run/bench-shutdown'
const ANSWER_BOUND_MS = 180_000
const never = new AbortController().signal

const [command = '', count = '20'] = process.argv.slice(2)
const guests = Array.from({ length: Number(count) }, (_, index) => sleeper('bench-reboot', index + 1))

const allAnswer = (): Promise<unknown> =>
  Promise.all(
    guests.map(({ id, ipv4 }) =>
      until(`${id} answers`, async () => (await exchange(ipv4)) && true, ANSWER_BOUND_MS),
    ),
  )

async function make(): Promise<void> {
  for (const [index, one] of guests.entries()) {
    await makeSleeper(one)
    await sleepAfter(one.id, 0)
    progress(`${index + 1} of ${guests.length} guests run`)
  }
}

/** Returns the milliseconds from the start of the boot until all guests answer. Both are of the monotonic clock. */
async function sinceBoot(): Promise<number> {
  await allAnswer()
  const nowUs = Number(process.hrtime.bigint() / 1000n)
  const bootUs = Number(await sh('systemctl', 'show', '--value', '--property=UserspaceTimestampMonotonic'))
  return (nowUs - bootUs) / 1000
}

const socketOf = ({ id }: Sleeper): string => `/run/vmhostd/vm/${id}/qmp.sock`
/** In the directory to which the sandbox of a monitor lets it write. */
const memoryOf = ({ id }: Sleeper): string => `${DISKS}/${id}/save/memory`

async function saveByHand(one: Sleeper): Promise<void> {
  const { uid } = statSync(`/proc/${await mainPid(`vmhost-${one.id}`)}`)
  writeFileSync(memoryOf(one), '', { mode: 0o600 })
  chownSync(memoryOf(one), uid, uid)
  const monitor = await QmpClient.connect(socketOf(one))
  await monitor.execute('stop')
  await saveGuest(monitor, { path: memoryOf(one), form: 'mapped' }, never)
  monitor.close()
  await sh('sync', memoryOf(one))
}

/** Starts the monitor of a saved guest. Returns its process when the guest runs. */
async function restoreByHand(one: Sleeper, argv: readonly string[]): Promise<ReturnType<typeof spawn>> {
  mkdirSync(`${SOCKETS}/${one.id}`, { recursive: true })
  const moved = argv.map((word) =>
    word
      .replace(`${DISKS}/${one.id}/saved/memory`, memoryOf(one))
      .replace(`/run/vmhostd/vm/${one.id}/`, `${SOCKETS}/${one.id}/`),
  )
  const [program = '', ...args] = moved
  const monitor = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const qmp = await HandQmp.open(`${SOCKETS}/${one.id}/qmp.sock`)
  await qmp.loaded()
  await qmp.execute('cont')
  qmp.close()
  return monitor
}

/** Measures with the guests that the daemon has restored, so that their commands are those of a restore. */
async function byHand(): Promise<ByHand> {
  const commands = await Promise.all(guests.map(async ({ id }) => commandOf(await mainPid(`vmhost-${id}`))))
  await sh('systemctl', 'stop', 'vmhostd')
  let startedAt = performance.now()
  await Promise.all(guests.map(saveByHand))
  const saveMs = performance.now() - startedAt
  await sh('systemctl', 'kill', '--signal=KILL', ...guests.map(({ id }) => `vmhost-${id}`))
  startedAt = performance.now()
  const monitors = await Promise.all(guests.map((one, index) => restoreByHand(one, commands[index] ?? [])))
  await allAnswer()
  const restoreMs = performance.now() - startedAt
  for (const monitor of monitors) {
    monitor.kill('SIGKILL')
    await once(monitor, 'exit')
  }
  rmSync(SOCKETS, { recursive: true })
  return { saveMs, restoreMs }
}

if (command === 'make') await make()
if (command === 'answers') console.log(await sinceBoot())
if (command === 'by-hand') console.log(JSON.stringify(await byHand()))
closeController()
