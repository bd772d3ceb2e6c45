import { readFile, writeFile } from 'node:fs/promises'
import { systemdTree } from './unit-groups.ts'

export type EarlyMoveOptions = {
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
