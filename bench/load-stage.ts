/** A lab host for a thousand VMs: stand-in monitors, and memory on paper. */
import { request } from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import { configure } from '../lab/inside/configure.ts'
import { call, controllerIdentity, mutate } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { mainPid, sh, unitProperty } from '../lab/inside/shell.ts'
import { until } from '../lab/inside/until.ts'
import { capacityOnPaper } from './paper-capacity.ts'
import { allVms, START_BOUND_MS } from './many-vms.ts'
import { STAND_IN_PROGRAM, standInMonitors } from './stand-in-monitor.ts'

const DISK_MIB = 64
const CLIENTS = 8
const READY_EVERY_MS = 50

/** Prepares the host, and answers for the monitors until `close`. */
export async function prepareLoad(): Promise<{ close(): void }> {
  const monitors = await standInMonitors(DISK_MIB)
  await capacityOnPaper()
  await configure('monitor', { kind: 'qemu', accelerator: 'tcg', program: STAND_IN_PROGRAM })
  return monitors
}

/** Creates the VMs, and returns the milliseconds until all of them run. */
export async function createRunning(ids: readonly string[]): Promise<number> {
  const startedAt = performance.now()
  const waiting = [...ids.entries()]
  const createAll = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, id] = next
      await mutate('PUT', `/v1/vms/${id}`, runningVm(index))
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, createAll))
  await allVms('running', ids.length, ({ state }) => state === 'running')
  return performance.now() - startedAt
}

const runningVm = (index: number): object => ({
  ...guestRequest({ network: { ipv4_address: `198.18.${index >> 8}.${index & 255}` } }),
  compute: { cpu_millicores: 100, memory_mib: 64, sleep_after_idle_seconds: 0 },
  disk: { size_mib: DISK_MIB },
})

/** Milliseconds since the moment from which a start of the daemon counts. */
export type Start = {
  /** From the start of its process until it answers. */
  readonly listenerMs: number
  /** From the kill of the one before until it has looked at every VM. */
  readonly readyMs: number
}

/** Kills the daemon, as a crash does. systemd starts another one. */
export async function killAndStart(): Promise<Start> {
  const earlier = await mainPid('vmhostd')
  const killedAt = performance.now()
  await sh('systemctl', 'kill', '--signal=KILL', 'vmhostd')
  const answeredUs = await until('another daemon answers', async () => {
    if (!(await answers('/healthz'))) return undefined
    const atUs = Number(process.hrtime.bigint() / 1000n)
    return (await mainPid('vmhostd')) === earlier ? undefined : atUs
  })
  // Over one connection and not often, because a handshake takes time from the daemon that is measured.
  const look = async (): Promise<true | undefined> => {
    await delay(READY_EVERY_MS)
    return (await call('GET', '/readyz')).status === 200 ? true : undefined
  }
  await until('the daemon is ready', look, START_BOUND_MS)
  const readyMs = performance.now() - killedAt
  const startedUs = Number(await unitProperty('vmhostd', 'ExecMainStartTimestampMonotonic'))
  await sh('systemctl', 'reset-failed', 'vmhostd')
  return { listenerMs: (answeredUs - startedUs) / 1000, readyMs }
}

/** Returns whether a request over a connection of its own is answered with 200. */
function answers(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const asking = request({ ...controllerIdentity(), host: 'localhost', port: 9000, path, agent: false })
  asking.on('response', (response) => {
    response.resume()
    resolve(response.statusCode === 200)
  })
  asking.on('error', () => resolve(false))
  asking.end()
  return promise
}

/**
 * Starts the same program in as many units with systemd-run, and returns the milliseconds until all run. They have no
 * disk, network, console or sandbox.
 */
export async function startByHand(count: number): Promise<number> {
  const startedAt = performance.now()
  const unit = 'bench-hand-$0 --slice=bench-hand.slice'
  const properties = '--property=Type=exec --property=RuntimeDirectory=bench-hand/$0'
  const program = `${STAND_IN_PROGRAM} -qmp unix:/run/bench-hand/$0/qmp.sock,server=on`
  const one = `systemd-run --quiet --collect --unit=${unit} ${properties} ${program}`
  await sh('sh', '-c', `seq ${count} | xargs -P ${CLIENTS} -n 1 sh -c '${one}'`)
  const ms = performance.now() - startedAt
  await sh('systemctl', 'stop', 'bench-hand.slice')
  return ms
}
