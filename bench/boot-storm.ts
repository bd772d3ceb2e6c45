import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { mutate, remove, setPower, settled } from '../lab/inside/controller.ts'
import { mainPid } from '../lab/inside/shell.ts'
import { sleeper, sleeperRequest } from '../lab/inside/sleepers.ts'
import { firstPing } from './first-ping.ts'
import { measurement, progress } from './measurement.ts'
import { commandOf } from './monitor-command.ts'
import type { Measurement } from './measurement.ts'

const GUESTS = 20
const SOCKETS = '/run/bench-storm'
/** Rare enough not to take part in the load. */
const PING = { everySeconds: 0.1, boundSeconds: 300 }

/**
 * Boots real guests at once, ours and then by hand with the same commands, until the last one answers a ping. Ours is
 * first, so that the caches are warm for the reference.
 */
export async function bootStorm(): Promise<Measurement> {
  const guests = Array.from({ length: GUESTS }, (_, index) => sleeper('bench-storm', index + 1))
  const request = { power: 'stopped', sleepAfterIdleSeconds: 0 } as const
  for (const one of guests) await mutate('PUT', `/v1/vms/${one.id}`, sleeperRequest(one, request))
  for (const { id } of guests) await settled(id, 'stopped')
  const allAnswer = (): Promise<number[]> => Promise.all(guests.map(({ ipv4 }) => firstPing(ipv4, PING)))

  let startedAt = performance.now()
  const answered = allAnswer()
  await Promise.all(guests.map(({ id }) => setPower(id, 'running')))
  const ours = Math.max(...(await answered)) - startedAt
  const commands = await Promise.all(guests.map(async ({ id }) => commandOf(await mainPid(`vmhost-${id}`))))
  for (const { id } of guests) await setPower(id, 'stopped')
  for (const { id } of guests) await settled(id, 'stopped')
  progress(`${GUESTS} guests answer after ${(ours / 1000).toFixed(1)} s`)

  for (const { id } of guests) mkdirSync(`${SOCKETS}/${id}`, { recursive: true })
  startedAt = performance.now()
  const answeredByHand = allAnswer()
  const monitors = commands.map((argv) => {
    const [program = '', ...args] = argv.map((word) => word.replace('/run/vmhostd/vm/', `${SOCKETS}/`))
    return spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  })
  const byHand = Math.max(...(await answeredByHand)) - startedAt
  progress(`${GUESTS} guests by hand answer after ${(byHand / 1000).toFixed(1)} s`)
  for (const monitor of monitors) {
    monitor.kill('SIGKILL')
    await once(monitor, 'exit')
  }
  rmSync(SOCKETS, { recursive: true })
  for (const { id } of guests) await remove(id)
  return measurement({
    bench: 'load',
    metric: `boot_storm_${GUESTS}_s`,
    unit: 's',
    ours: ours / 1000,
    reference: byHand / 1000,
    reference_name: `the same ${GUESTS} QEMU commands started at once, until the last guest answers`,
    runs: 1,
  })
}
