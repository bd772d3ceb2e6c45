/** hostile: the effect on other guests and the controller while one guest, or a peer, does its worst. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../src/config/limits.ts'
import { leave, view } from '../lab/inside/console.ts'
import { call, closeController, controllerIdentity, getVm, mutate } from '../lab/inside/controller.ts'
import { exchange } from '../lab/inside/first-packets.ts'
import { mainPid, ready, sh, unitProperty } from '../lab/inside/shell.ts'
import { asleep, makeSleeper, sleeper } from '../lab/inside/sleepers.ts'
import { until } from '../lab/inside/until.ts'
import { consoleEcho } from './console-keys.ts'
import { makePaused, removeAll } from './many-vms.ts'
import { measurement, median, percentile, progress } from './measurement.ts'
import { openLoop } from './open-loop.ts'
import { cpuPercent } from './process-cpu.ts'
import type { ChildProcess } from 'node:child_process'
import type { Measurement } from './measurement.ts'

const SLEEPERS = 4
const WAKE_ROUNDS = 2
const READS_PER_SECOND = 50
const READ_SECONDS = 8
const KEYS = 300
const KEY_PACE_MS = 10
/** A route to a device without a reader: the flood passes the whole firewall. */
const OUTSIDE = { device: 'benchout0', network: '203.0.113.0/24', address: '203.0.113.9' }

type Figures = {
  readonly reads: readonly number[]
  readonly echoes: readonly number[]
  readonly wakes: readonly number[]
  /** The daemon's use of one core while the reads are measured. */
  readonly cpu: number
}

const hostile = sleeper('bench-hostile', 100)
const sleepers = Array.from({ length: SLEEPERS }, (_, index) => sleeper('bench-beside', index + 1))
const agent = new Agent({ keepAlive: true, maxSockets: 4, ...controllerIdentity() })
const unit = `vmhost-${hostile.id}.service`

await outside()
const [typist = ''] = await makePaused('bench-typist', 1)
for (const one of sleepers) await makeSleeper(one)
await makeSleeper(hostile, { sleepAfterIdleSeconds: 0 })
progress('the VMs are made')
const standIn = await standInForMonitor()
const echo = await echoOn(typist)
const viewer = await view(typist)

const rows: Measurement[] = []
for (const [kind, begin] of Object.entries({
  agent: agentFlood,
  console: consoleFlood,
  packets: packetFlood,
  handshakes: handshakeFlood,
})) {
  const quiet = await figures()
  const end = await begin()
  const flooded = await figures()
  await end()
  rows.push(...rowsOf(kind, flooded, quiet))
  progress(
    `${kind}: ${rows
      .slice(-4)
      .map(({ ours, reference }) => `${ours} beside ${reference} ms`)
      .join(', ')}`,
  )
}

await leave(viewer)
for (const child of [echo, standIn]) child.kill()
await sh('systemctl', 'kill', '--signal=CONT', unit, `vmhost-${typist}.service`)
await call('DELETE', '/v1/snapshots/bench-hostile')
await removeAll([typist, hostile.id, ...sleepers.map(({ id }) => id)])
await sh('ip', 'link', 'delete', 'dev', OUTSIDE.device)
agent.destroy()
closeController()
console.log(JSON.stringify(rows))
// Exit explicitly, because the agents of viewers keep their connections.
process.exit(0)

/** Measures the host as the controller and two other guests see it, one after the other. */
async function figures(): Promise<Figures> {
  const shot = () => ({ port: 9000, method: 'GET', path: `/v1/vms/${typist}`, expect: 200 })
  const [reads, cpu] = await Promise.all([
    openLoop({ agent, perSecond: READS_PER_SECOND, seconds: READ_SECONDS, shot }),
    cpuPercent(await mainPid('vmhostd'), READ_SECONDS),
  ])
  const echoes = await consoleEcho(viewer, KEYS, KEY_PACE_MS)
  const wakes: number[] = []
  for (let round = 0; round < WAKE_ROUNDS; round += 1) {
    await Promise.all(sleepers.map(({ id }) => asleep(id)))
    // A shorter sleep would count as flapping.
    await delay(limits.shortSleepMs)
    for (const { id, ipv4 } of sleepers) {
      wakes.push((await exchange(ipv4)).firstByteMs)
      // An emulated guest that was just woken takes a core for itself.
      await asleep(id)
    }
  }
  return { reads, echoes, wakes, cpu }
}

function rowsOf(kind: string, flooded: Figures, quiet: Figures): Measurement[] {
  const common = { bench: 'hostile', unit: 'ms', reference_name: 'the same without the flood' }
  const percent = { metric: `${kind}_cpu_percent`, unit: '%', runs: 1 }
  const p99 = (samples: readonly number[]): number => percentile(samples, 0.99)
  return [
    measurement({
      ...common,
      metric: `${kind}_read_p99_ms`,
      ours: p99(flooded.reads),
      reference: p99(quiet.reads),
      runs: quiet.reads.length,
    }),
    measurement({
      ...common,
      metric: `${kind}_echo_p99_ms`,
      ours: p99(flooded.echoes),
      reference: p99(quiet.echoes),
      runs: quiet.echoes.length,
    }),
    measurement({
      ...common,
      metric: `${kind}_wake_p50_ms`,
      ours: median(flooded.wakes),
      reference: median(quiet.wakes),
      runs: quiet.wakes.length,
    }),
    measurement({ ...common, ...percent, ours: flooded.cpu, reference: quiet.cpu }),
  ]
}

/**
 * Puts a program in place of the monitor, because an emulated guest is too slow to show the worst. QEMU is stopped
 * meanwhile, and keeps its unit, its terminal and its tap.
 */
async function standInForMonitor(): Promise<ChildProcess> {
  await sh('systemctl', 'kill', '--signal=STOP', unit)
  const { observed } = await getVm(hostile.id)
  const diskMib = String(observed.disk?.size_mib ?? 0)
  const child = await program(
    'hostile-monitor.ts',
    `/run/vmhostd/vm/${hostile.id}`,
    await unitProperty(unit, 'User'),
    diskMib,
  )
  // A restarted daemon connects to the stand-in.
  await sh('systemctl', 'restart', 'vmhostd')
  await ready()
  return child
}

/** Freezes the guest's file systems for a snapshot; its agent then floods each question whether they are thawed. */
async function agentFlood(): Promise<() => Promise<void>> {
  const upload = { part_size_mib: 64, part_urls: ['https://store.example.net/part'] }
  await mutate('PUT', '/v1/snapshots/bench-hostile', { vm_id: hostile.id, upload })
  await until('the disk is captured', async () => {
    const { body } = await call('GET', '/v1/snapshots/bench-hostile')
    return 'captured_at' in body ? true : undefined
  })
  let questions = 0
  standIn.stdout?.on('data', (text: Buffer) => (questions += text.toString().split('\n').length - 1))
  return async () => {
    progress(`${questions} questions were flooded`)
    if (questions === 0) throw new Error('the agent was asked nothing')
    // The guest stays on record as frozen, but the daemon does not ask the agent of a paused guest.
    await mutate('PUT', `/v1/vms/${hostile.id}/power`, { state: 'paused' })
  }
}

async function consoleFlood(): Promise<() => Promise<void>> {
  const child = await program('console-flood.ts', await unitProperty(unit, 'TTYPath'))
  const watcher = await view(hostile.id)
  return async () => {
    child.kill()
    await leave(watcher)
  }
}

async function packetFlood(): Promise<() => Promise<void>> {
  const userId = await unitProperty(unit, 'User')
  const devices = '/sys/class/net'
  const isOwned = (name: string): boolean => ownerOf(`${devices}/${name}`) === userId
  const device = readdirSync(devices).find(isOwned) ?? ''
  const tapMac = readFileSync(`${devices}/${device}/address`, 'utf8').trim()
  const { desired } = (await getVm(hostile.id)) as unknown as {
    desired: { network: { mac_address: string } }
  }
  const guestMac = desired.network.mac_address
  const counter = `${devices}/${OUTSIDE.device}/statistics/tx_dropped`
  const child = await program(
    'hostile-packets.ts',
    await mainPid(unit),
    guestMac,
    tapMac,
    hostile.ipv4,
    OUTSIDE.address,
  )
  const startedAt = performance.now()
  const before = Number(readFileSync(`${devices}/${device}/statistics/rx_packets`, 'utf8'))
  return async () => {
    const packets = Number(readFileSync(`${devices}/${device}/statistics/rx_packets`, 'utf8')) - before
    child.kill()
    const perSecond = packets / ((performance.now() - startedAt) / 1000)
    progress(
      `${perSecond.toFixed(0)} packets/s came from the guest; ${readFileSync(counter, 'utf8').trim()} went out`,
    )
    if (packets === 0) throw new Error('the packets did not flow')
  }
}

async function handshakeFlood(): Promise<() => Promise<void>> {
  const child = await program('hostile-handshakes.ts')
  return async () => void child.kill()
}

/** Returns a device's owner; only taps have one (tun.c, dev_attr_owner). */
function ownerOf(directory: string): string | undefined {
  try {
    return readFileSync(`${directory}/owner`, 'utf8').trim()
  } catch {
    return undefined
  }
}

async function outside(): Promise<void> {
  await sh('ip', 'tuntap', 'add', 'dev', OUTSIDE.device, 'mode', 'tap')
  await sh('ip', 'link', 'set', 'dev', OUTSIDE.device, 'up')
  await sh('ip', 'route', 'add', OUTSIDE.network, 'dev', OUTSIDE.device)
  const neighbour = ['lladdr', '02:76:ff:00:00:09', 'dev', OUTSIDE.device, 'nud', 'permanent']
  await sh('ip', 'neighbour', 'replace', OUTSIDE.address, ...neighbour)
}

/** Puts an echo at the far end of a console. The monitor there would read some of the keys, so it is stopped. */
async function echoOn(id: string): Promise<ChildProcess> {
  await sh('systemctl', 'kill', '--signal=STOP', `vmhost-${id}.service`)
  return program('console-echo.ts', await unitProperty(`vmhost-${id}.service`, 'TTYPath'))
}

/** Runs one of the programs beside this file; resolves when it is ready. */
async function program(name: string, ...args: readonly string[]): Promise<ChildProcess> {
  const child = spawn(process.execPath, [`${import.meta.dirname}/${name}`, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  // If the run fails, the program would keep its pipes open.
  process.once('exit', () => child.kill())
  const ended = once(child, 'exit').then(() => {
    throw new Error(`${name} ended before it was ready`)
  })
  ended.catch(() => {})
  await Promise.race([once(child.stdout, 'data'), ended])
  return child
}
