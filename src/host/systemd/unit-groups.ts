import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { parseUnitName, UNIT_SLICE, unitName } from '../../core/unit/unit-spec.ts'
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
export function systemdTree(): string {
  const found = TREES.find((tree) => existsSync(`${tree}/cgroup.procs`))
  if (found === undefined) throw new Error(`no control groups in ${TREES.join(', ')}`)
  return found
}
