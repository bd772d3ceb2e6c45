/** The memory that open consoles take, and that their viewers take beside as many WebSockets of a bare server. */
import { once } from 'node:events'
import { Agent } from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { leave } from '../lab/inside/console.ts'
import { controllerIdentity } from '../lab/inside/controller.ts'
import { mainPid } from '../lab/inside/shell.ts'
import { REST_MS } from './at-rest.ts'
import { measurement, median, progress } from './measurement.ts'
import { memoryMib } from './process-memory.ts'
import { startBareServer } from './start-bare-server.ts'
import type { Viewer } from '../lab/inside/console.ts'
import type { Measurement } from './measurement.ts'

const RUNS = 3

type Terms = {
  readonly consoles: number
  /** The daemon's memory without VMs. */
  readonly emptyMib: number
  readonly restart: () => Promise<unknown>
  /** Opens a viewer for each console. */
  readonly viewAll: () => Promise<Viewer[]>
}

/** Measures the daemon with VMs, then with a viewer for each, then the bare server. */
export async function consoleMemory({ consoles, emptyMib, restart, viewAll }: Terms): Promise<Measurement[]> {
  const vmsMib = await restedMib(restart)
  let viewers: Viewer[] = []
  const viewedMib = await restedMib(async () => {
    await Promise.all(viewers.map(leave))
    await restart()
    viewers = await viewAll()
  })
  await Promise.all(viewers.map(leave))
  const bareMib = await bareSockets(consoles)
  progress(`the memory of ${consoles} consoles is measured`)
  const common = { bench: 'console', unit: 'MiB', runs: RUNS }
  const perVm = (vmsMib - emptyMib) / consoles
  return [
    {
      ...measurement({
        ...common,
        metric: `rss_${consoles}_mib`,
        ours: vmsMib,
        reference: emptyMib,
        reference_name: 'the same daemon, restarted as often, without VMs',
      }),
      notes: [`${perVm.toFixed(3)} MiB for each VM, without a viewer`],
    },
    measurement({
      ...common,
      metric: `viewers_${consoles}_mib`,
      ours: viewedMib - vmsMib,
      reference: bareMib,
      reference_name: `what ${consoles} silent WebSockets add to a bare server over the same mTLS`,
    }),
  ]
}

/**
 * Returns the daemon's memory at rest after `prepare`, MiB: the median of several. `prepare` restarts it, which drops
 * garbage of earlier work that would be collected at a random time.
 */
export async function restedMib(prepare: () => Promise<unknown>): Promise<number> {
  const samples: number[] = []
  for (let run = 1; run <= RUNS; run += 1) {
    await prepare()
    await delay(REST_MS)
    samples.push(memoryMib(await mainPid('vmhostd')))
  }
  return median(samples)
}

/** Returns how much more memory a bare server has at rest with so many WebSockets than without, MiB. */
async function bareSockets(count: number): Promise<number> {
  const samples: number[] = []
  for (let run = 1; run <= RUNS; run += 1) {
    const [without, withThem] = [await bareServer(0), await bareServer(count)]
    samples.push(withThem - without)
  }
  return median(samples)
}

/** Returns the memory of a new bare server at rest, with so many WebSockets, MiB. */
async function bareServer(count: number): Promise<number> {
  const server = await startBareServer()
  const agent = new Agent(controllerIdentity())
  const sockets = Array.from(
    { length: count },
    () => new WebSocket(`wss://localhost:${server.port}`, { agent, perMessageDeflate: false }),
  )
  await Promise.all(sockets.map(async (socket) => once(socket, 'open')))
  await delay(REST_MS)
  const mib = memoryMib(server.pid)
  for (const socket of sockets) socket.terminate()
  server.end()
  return mib
}
