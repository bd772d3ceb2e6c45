import { readFile, writeFile } from 'node:fs/promises'
import { systemdTree } from './unit-groups.ts'

export type EarlyMoveOptions = {
  /** Tells the groups of this process (cgroups(7), "/proc/pid/cgroup"). */
  readonly ownGroups?: string
  /** Tells where systemd's control groups are; may throw. */
  readonly tree?: () => string
}

/** Of cgroup v2, and of v1 where systemd keeps track of processes there. */
const GROUPS = [/^0::(.*)$/m, /^\d+:name=systemd:(.*)$/m]

/**
 * systemd moves the process of a unit that it starts into the unit's control group, and before a move the kernel waits until
 * each CPU has come by (an RCU grace period, for cgroup_threadgroup_rwsem in kernel/cgroup/cgroup.c): 6 to 20 ms. A move soon
 * after another finds that done. So where a start is foreseen, this process is moved into the group where it is: nothing but
 * the wait comes of it, and it passes while the start is made ready. Hosts whose cgroup file system is mounted with
 * `favordynmods` (admin-guide/cgroup-v2) know no such wait.
 */
export class EarlyMove {
  readonly #ownGroups: string
  readonly #tree: () => string
  #moving: Promise<boolean> | undefined

  constructor({ ownGroups = '/proc/self/cgroup', tree = systemdTree }: EarlyMoveOptions = {}) {
    this.#ownGroups = ownGroups
    this.#tree = tree
  }

  /** Moves, or joins the move that is under way. False where that cannot be: the wait that it saves is then not saved. */
  make(): Promise<boolean> {
    this.#moving ??= this.#move().finally(() => {
      this.#moving = undefined
    })
    return this.#moving
  }

  async #move(): Promise<boolean> {
    // Read each time: who moves this process by hand shall not find it moved back.
    const groups = await readFile(this.#ownGroups, 'utf8').catch(() => '')
    const group = GROUPS.map((pattern) => pattern.exec(groups)?.[1]).find((path) => path !== undefined)
    // One that leads out is outside what this process sees of the tree (cgroup_namespaces(7)).
    if (group === undefined || group.startsWith('/..')) return false
    try {
      await writeFile(`${this.#tree()}${group}/cgroup.procs`, '0', { flag: 'r+' })
      return true
    } catch {
      return false
    }
  }
}
