import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, openSync, closeSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkout } from '../tools/paths.ts'
import { runChecked } from '../tools/process.ts'
import { endCgroups, isSystemdHost, makeCgroups, removeCgroups } from './cgroups.ts'
import { execIn } from './exec.ts'
import { findFirecracker, LAB_FIRECRACKER } from './firecracker.ts'
import { isAlive, refer, writeState } from './state.ts'
import type { LabState, ProcessRef } from './state.ts'

const LEADER_BOUND_MS = 20_000
const BOOT_BOUND_MS = 60_000
const LOOK_EVERY_MS = 50

/** Returns where a lab's own root is mounted on this machine while it runs. */
export function mountPoint(folder: string): string {
  return path.join(folder, 'root')
}

/**
 * Mounts a writable throw-away layer over cached trees (the uppermost first), so that labs never change them or each
 * other.
 */
export async function mountRoot(cachedTrees: readonly string[], folder: string): Promise<void> {
  const [upper, work, target] = ['upper', 'work', 'root'].map((name) => path.join(folder, name))
  for (const place of [upper, work, target]) mkdirSync(place ?? '', { recursive: true })
  const layers = `lowerdir=${cachedTrees.join(':')},upperdir=${upper},workdir=${work}`
  await runChecked(['mount', '-t', 'overlay', '-o', layers, 'vmhostd-lab', target ?? ''])
}

/**
 * Reboots a lab by its own systemd; returns its state once everything runs again. Its root and its pool stay.
 */
export async function reboot(
  state: LabState,
  guestFolder: string,
  { boundMs, powerCut = false }: RebootOptions,
): Promise<LabState> {
  const { leader } = state
  const ended = async (which: ProcessRef | undefined): Promise<void> => {
    while (isAlive(which)) {
      if (performance.now() > deadline)
        throw new Error(`the lab ${state.name} is not down after ${boundMs} ms`)
      await sleep(LOOK_EVERY_MS)
    }
  }
  const deadline = performance.now() + boundMs
  if (powerCut && leader !== undefined) process.kill(leader.pid, 'SIGKILL')
  else await execIn(state, ['systemctl', '--no-block', 'reboot'])
  await ended(leader)
  // With a unit of its own, systemd-nspawn boots the lab again by itself.
  if (isSystemdHost() && isAlive(state.container)) process.kill(state.container?.pid ?? 0, 'SIGKILL')
  await ended(state.container)
  // systemd of the next boot enters a cgroup without children.
  await endCgroups(state.name, boundMs)
  removeCgroups(state.name)
  return boot(state, guestFolder)
}

export type RebootOptions = {
  /** How long the shutdown may take. */
  readonly boundMs: number
  /** Ends the lab at once instead: none of its programs can do anything more. */
  readonly powerCut?: boolean
}

/** Boots a lab and returns its state once its systemd reports that everything runs. */
export async function boot(state: LabState, guestFolder: string): Promise<LabState> {
  const container = startContainer(state, guestFolder)
  writeState({ ...state, container })
  const leader = await findLeader(container, state.folder)
  const running = { ...state, container, leader }
  writeState(running)
  await waitUntilRunning(running)
  return running
}

function containerArguments(state: LabState, guestFolder: string): string[] {
  const argv = [
    ...['systemd-nspawn', '--quiet', '--boot', '--settings=no', '--register=no'],
    ...[`--directory=${mountPoint(state.folder)}`, `--machine=${state.name}`, `--hostname=${state.name}`],
    // Becomes the machine id. Without it all labs of this machine have the same one, as no two hosts have.
    `--uuid=${randomUUID()}`,
    // No network but loopback: test packets can reach only the lab's own taps.
    '--private-network',
    ...['--link-journal=no', '--resolv-conf=off', '--timezone=off', '--console=read-only'],
    ...['--capability=all', '--system-call-filter=bpf perf_event_open pidfd_getfd'],
    '--bind=/dev/net/tun',
    ...[`--bind-ro=${checkout}:/src`, `--bind-ro=${guestFolder}:/srv/guest`],
  ]
  const firecracker = findFirecracker()
  if (firecracker !== undefined) argv.push(`--bind-ro=${firecracker}:${LAB_FIRECRACKER}`)
  if (!isSystemdHost()) return [...argv, '--keep-unit']
  const devices = ['block-loop rwm', '/dev/loop-control rw', '/dev/kvm rwm']
  return [...argv, ...devices.map((device) => `--property=DeviceAllow=${device}`)]
}

/** Starts systemd-nspawn in cgroups of its own, detached, so that the lab survives the command that made it. */
function startContainer(state: LabState, guestFolder: string): ProcessRef {
  // systemd-nspawn keeps its lock files there and expects the folder, which only systemd makes.
  mkdirSync('/run/systemd', { recursive: true })
  const cgroups = makeCgroups(state.name).map((folder) => path.join(folder, 'cgroup.procs'))
  const enter = 'while [ "$1" != -- ]; do echo $$ >"$1"; shift; done; shift; exec "$@"'
  const argv = ['-c', enter, 'sh', ...cgroups, '--', ...containerArguments(state, guestFolder)]
  const log = openSync(logFile(state.folder), 'w')
  const child = spawn('sh', argv, {
    detached: true,
    stdio: ['ignore', log, log],
    // systemd 257 refuses a host's legacy cgroup hierarchy; this gives the lab a unified one on every host.
    env: { ...process.env, SYSTEMD_NSPAWN_UNIFIED_HIERARCHY: '1' },
  })
  closeSync(log)
  child.unref()
  const container = child.pid === undefined ? undefined : refer(child.pid)
  if (container === undefined) throw new Error('systemd-nspawn could not be started')
  return container
}

/** Returns the path of the container's output: the boot messages of the lab's systemd. */
export function logFile(folder: string): string {
  return path.join(folder, 'nspawn.log')
}

/** Finds PID 1 of the lab: the child of systemd-nspawn whose innermost process id is 1. */
async function findLeader(container: ProcessRef, folder: string): Promise<ProcessRef> {
  const deadline = performance.now() + LEADER_BOUND_MS
  while (performance.now() < deadline) {
    if (!isAlive(container))
      throw new Error(`systemd-nspawn ended:\n${readFileSync(logFile(folder), 'utf8')}`)
    for (const pid of childrenOf(container.pid)) {
      const leader = isInit(pid) ? refer(pid) : undefined
      if (leader !== undefined) return leader
    }
    await sleep(LOOK_EVERY_MS)
  }
  throw new Error(`systemd-nspawn started no init within ${LEADER_BOUND_MS} ms`)
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

function isInit(pid: number): boolean {
  try {
    return /^NSpid:\s.*\s1$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

async function waitUntilRunning(state: LabState): Promise<void> {
  const deadline = performance.now() + BOOT_BOUND_MS
  let said = ''
  while (performance.now() < deadline) {
    if (!isAlive(state.leader))
      throw new Error(`the lab ended:\n${readFileSync(logFile(state.folder), 'utf8')}`)
    const answer = await execIn(state, ['systemctl', 'is-system-running'], { timeoutMs: 5000 })
    said = (answer.stdout || answer.stderr).trim()
    if (said === 'running') return
    if (said === 'degraded') {
      const failed = await execIn(state, ['systemctl', '--failed', '--no-legend', '--plain'])
      throw new Error(`the lab's systemd is degraded:\n${failed.stdout}`)
    }
    await sleep(LOOK_EVERY_MS)
  }
  throw new Error(`the lab's systemd is not up after ${BOOT_BOUND_MS} ms; it says: ${said}`)
}
