import { existsSync } from 'node:fs'
import { readdir, constants, readFile, rmdir, writeFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { parseUnitName, UNIT_SLICE, unitName } from '../../core/unit/unit-spec.ts'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import type { VmId } from '../../core/ids.ts'

/**
 * The places where systemd tracks processes: cgroup v2 alone, v2 beside v1 (hybrid), or v1 alone (systemd 257 is the
 * last).
 */
const TREES = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified', '/sys/fs/cgroup/systemd']

/** The control groups of VM units, including those of units that systemd has forgotten. */
export class UnitGroups {
  readonly #rootGroup: () => Promise<string>
  #slice: Promise<string> | undefined

  /** @param rootGroup returns systemd's own group; empty if that is the root of the tree */
  constructor(rootGroup: () => Promise<string>) {
    this.#rootGroup = rootGroup
  }

  async pathOf(id: VmId): Promise<string> {
    return `${await this.#find()}/${unitName(id)}`
  }

  /** Returns the VMs that have a group. */
  async ids(): Promise<readonly VmId[]> {
    const names = await readdir(await this.#find()).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
    return names.map((name) => parseUnitName(name)).filter((id) => id !== undefined)
  }

  /** Finds the slice. It is looked up once, because systemd never moves. */
  #find(): Promise<string> {
    if (this.#slice !== undefined) return this.#slice
    const asking = this.#rootGroup().then(
      (root) => `${systemdTree()}${root.replace(/\/$/, '')}/${UNIT_SLICE}`,
    )
    this.#slice = asking
    asking.catch(() => {
      this.#slice = undefined
    })
    return asking
  }
}

/** Returns the tree that systemd uses. Throws if there is none. */
function systemdTree(): string {
  const found = TREES.find((tree) => existsSync(`${tree}/cgroup.procs`))
  if (found === undefined) throw new Error(`no control groups in ${TREES.join(', ')}`)
  return found
}

/** Returns the processes in a control group (cgroups(7)), with one cheap read; none if the group does not exist. */
export async function processesIn(group: string): Promise<readonly number[]> {
  try {
    return parseProcesses(await readFile(`${group}/cgroup.procs`, 'latin1'))
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'ENODEV')) return []
    throw error
  }
}

/** Returns the processes that a `cgroup.procs` file lists. */
export const parseProcesses = (text: string): readonly number[] =>
  text.split('\n').filter(Boolean).map(Number)

/**
 * Kills everything in a control group until it is empty, and removes the group. A process that is stuck in the kernel
 * outlives SIGKILL until it returns. The wait lasts until then, or until the signal aborts.
 */
export async function endProcesses(group: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  for (let pids = await processesIn(group); pids.length > 0; pids = await processesIn(group)) {
    if (!(await killGroup(group))) for (const pid of pids) kill(pid)
    await abortable(delay(limits.leftoverRecheckMs), signal)
  }
  // systemd removes the groups of its own units. The group of a forgotten unit would stay.
  await rmdir(group).catch(() => {})
}

/** Kills the whole group at once, including new forks. Returns false if the kernel is older than 5.14. */
async function killGroup(group: string): Promise<boolean> {
  try {
    await writeFile(`${group}/cgroup.kill`, '1', { flag: constants.O_WRONLY })
    return true
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return false
    throw error
  }
}

/**
 * Kills a process. Pid 0 is a process outside of this daemon's pid namespace, and to kill(2) it would mean our own
 * group.
 */
function kill(pid: number): void {
  try {
    if (pid > 0) process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!hasErrno(error, 'ESRCH')) throw error
  }
}

type EarlyMoveOptions = {
  /** The file with the control groups of this process (cgroups(7), "/proc/pid/cgroup"). */
  readonly ownGroups?: string
  /** Returns the root of systemd's control groups; may throw. */
  readonly tree?: () => string
}

/** The group in cgroup v2, or in v1 if systemd tracks processes there. */
const GROUPS = [/^0::(.*)$/m, /^\d+:name=systemd:(.*)$/m]

/**
 * Moves this process early, so that a start of a unit is faster. systemd moves the process of a unit that it starts
 * into the unit's control group. Before a move, the kernel waits until each CPU has passed a quiescent state (an RCU
 * grace period, for cgroup_threadgroup_rwsem in kernel/cgroup/cgroup.c): 6 to 20 ms. A move soon after another one need
 * not wait. So when a start is expected, this process is moved into the group that it is already in. That only causes
 * the wait, which passes while the start is prepared. Hosts whose cgroup file system is mounted with `favordynmods`
 * (admin-guide/cgroup-v2) do not have this wait.
 */
export class EarlyMove {
  readonly #ownGroups: string
  readonly #tree: () => string
  #moving: Promise<boolean> | undefined

  constructor({ ownGroups = '/proc/self/cgroup', tree = systemdTree }: EarlyMoveOptions = {}) {
    this.#ownGroups = ownGroups
    this.#tree = tree
  }

  /**
   * Moves the process, or joins the move that is under way. Returns false if the process cannot be moved; the start
   * then takes longer.
   */
  make(): Promise<boolean> {
    this.#moving ??= this.#move().finally(() => {
      this.#moving = undefined
    })
    return this.#moving
  }

  async #move(): Promise<boolean> {
    // Read each time, because an administrator may have moved this process, and it must not be moved back.
    const groups = await readFile(this.#ownGroups, 'utf8').catch(() => '')
    const group = GROUPS.map((pattern) => pattern.exec(groups)?.[1]).find((path) => path !== undefined)
    // A path that leads out is outside the part of the tree that this process sees (cgroup_namespaces(7)).
    if (group === undefined || group.startsWith('/..')) return false
    try {
      await writeFile(`${this.#tree()}${group}/cgroup.procs`, '0', { flag: 'r+' })
      return true
    } catch {
      return false
    }
  }
}
