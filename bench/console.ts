/** console: bytes from a guest to its viewers, the echo of a key, and 200 consoles over a restart of the daemon. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { leave, view } from '../lab/inside/console.ts'
import { closeController } from '../lab/inside/controller.ts'
import { mainPid, ready, sh, unitProperty } from '../lab/inside/shell.ts'
import { bareEcho, consoleEcho } from './console-keys.ts'
import { guestFlow } from './console-flow.ts'
import { consoleMemory, restedMib } from './console-memory.ts'
import { makePaused, removeAll } from './many-vms.ts'
import { measurement, median, percentile, progress } from './measurement.ts'
import { capacityOnPaper } from './paper-capacity.ts'
import { cpuPercent } from './process-cpu.ts'
import type { ChildProcess } from 'node:child_process'
import type { Viewer } from '../lab/inside/console.ts'
import type { Measurement } from './measurement.ts'

const CONSOLES = 200
const REPLAYS = 5
const NOISE_SECONDS = 5
/** Short for a precise measurement, but long enough not to slow down the daemon's start. */
const RETRY_MS = 20
const HISTORY_BYTES = 256 * 1024

const endPaper = await capacityOnPaper()
const emptyMib = await restedMib(restart)
const rows: Measurement[] = await guestFlow()
const ids = await makePaused('bench-console', CONSOLES)
progress(`${CONSOLES} VMs are paused`)
const [first = '', second = ''] = ids
await keys(first)
await noise(first, second)
rows.push(...(await consoleMemory({ consoles: CONSOLES, emptyMib, restart, viewAll })))
await replays()
await removeAll(ids)
await endPaper()
closeController()
console.log(JSON.stringify(rows))

/** Measures what the daemon adds to the echo of a key. */
async function keys(id: string): Promise<void> {
  const echo = await echoOn(id)
  const viewer = await view(id)
  const ours = await consoleEcho(viewer)
  await leave(viewer)
  await echo.kill()
  const alone = await bareEcho((path) => program('console-echo.ts', path))
  rows.push(
    measurement({
      bench: 'console',
      metric: 'echo_added_ms',
      unit: 'ms',
      ours: median(ours) - median(alone),
      reference: median(alone),
      reference_name: 'the echo over the pty alone',
      runs: ours.length,
      limit: 2,
    }),
  )
}

/**
 * Measures how much of the daemon one guest uses that writes without a pause, and how long a key on another console
 * waits meanwhile.
 */
async function noise(noisy: string, quiet: string): Promise<void> {
  const echo = await echoOn(quiet)
  const viewer = await view(quiet)
  const calm = await consoleEcho(viewer)
  const flood = await program('console-flood.ts', await ttyOf(noisy))
  const unwatched = await cpuPercent(await mainPid('vmhostd'), NOISE_SECONDS)
  const disturbed = await consoleEcho(viewer)
  const watcher = await view(noisy)
  const before = watcher.received()
  const startedAt = performance.now()
  const watched = await cpuPercent(await mainPid('vmhostd'), NOISE_SECONDS)
  const mibps = (watcher.received() - before) / 1024 / 1024 / ((performance.now() - startedAt) / 1000)
  flood.kill()
  await echo.kill()
  await Promise.all([leave(viewer), leave(watcher)])
  progress(`${mibps.toFixed(1)} MiB/s of a terminal that is written to without a pause`)
  const common = { bench: 'console', runs: 1 }
  rows.push(
    measurement({
      ...common,
      metric: 'noisy_cpu_percent',
      unit: '%',
      ours: watched,
      reference: unwatched,
      reference_name: 'the same noise without a viewer',
    }),
    measurement({
      ...common,
      metric: 'noisy_other_echo_p99_ms',
      unit: 'ms',
      ours: percentile(disturbed, 0.99),
      reference: percentile(calm, 0.99),
      reference_name: 'without the noise',
      runs: disturbed.length,
    }),
  )
}

/** Measures how soon all consoles are back after a restart, with a full history each. */
async function replays(): Promise<void> {
  let viewers = await viewAll()
  await Promise.all(ids.map(async (id) => fillHistory(id)))
  await Promise.all(viewers.map(async (viewer) => viewer.reached(HISTORY_BYTES)))
  progress('every history is full')
  const ours: number[] = []
  const restarts: number[] = []
  for (let run = 1; run <= REPLAYS; run += 1) {
    const startedAt = performance.now()
    const restarted = sh('systemctl', 'restart', 'vmhostd')
    await Promise.all(viewers.map(async ({ socket }) => once(socket, 'close')))
    viewers = await viewAll()
    await Promise.all(viewers.map(async (viewer) => viewer.reached(viewer.attached.replay_bytes)))
    ours.push(performance.now() - startedAt)
    await restarted
    await Promise.all(viewers.map(leave))
    restarts.push(await restart())
    viewers = await viewAll()
    progress(`replays: ${run} of ${REPLAYS}`)
  }
  await Promise.all(viewers.map(leave))
  rows.push(
    measurement({
      bench: 'console',
      metric: `replay_${CONSOLES}_ms`,
      unit: 'ms',
      ours: median(ours),
      reference: median(restarts),
      reference_name: `a restart with ${CONSOLES} VMs until it is ready, without viewers`,
      runs: REPLAYS,
    }),
  )
}

/** Opens a viewer for each console; the daemon may be starting. */
async function viewAll(): Promise<Viewer[]> {
  return Promise.all(ids.map(attached))
}

async function attached(id: string): Promise<Viewer> {
  for (;;) {
    try {
      return await view(id)
    } catch {
      // The daemon does not answer yet.
      await delay(RETRY_MS)
    }
  }
}

async function restart(): Promise<number> {
  const startedAt = performance.now()
  await sh('systemctl', 'restart', 'vmhostd')
  await ready()
  return performance.now() - startedAt
}

async function fillHistory(id: string): Promise<void> {
  const path = await ttyOf(id)
  await sh('sh', '-c', `head -c ${HISTORY_BYTES} /dev/zero | tr '\\0' x > ${path}`)
}

async function ttyOf(id: string): Promise<string> {
  return unitProperty(`vmhost-${id}.service`, 'TTYPath')
}

/** Puts an echo at the far end of a console. The monitor there would read some of the keys, so it is stopped. */
async function echoOn(id: string): Promise<{ kill(): Promise<unknown> }> {
  const unit = `vmhost-${id}.service`
  await sh('systemctl', 'kill', '--signal=STOP', unit)
  const echo = await program('console-echo.ts', await ttyOf(id))
  return {
    async kill() {
      echo.kill()
      await sh('systemctl', 'kill', '--signal=CONT', unit)
    },
  }
}

/** Runs a program at the far end of a terminal; resolves when it is ready. */
async function program(name: string, path: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [`${import.meta.dirname}/${name}`, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}
