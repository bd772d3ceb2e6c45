import { limits } from '../config/limits.ts'
import type { VmId } from '../core/vm/ids.ts'

/** The guests that are being saved by this process: few at a time, since they share the disk. */
export class Saves {
  readonly #underWay = new Set<VmId>()

  /** Whether one more may begin. */
  get mayBegin(): boolean {
    return this.#underWay.size < limits.savesMax
  }

  has(id: VmId): boolean {
    return this.#underWay.has(id)
  }

  async run<T>(id: VmId, save: () => Promise<T>): Promise<T> {
    this.#underWay.add(id)
    try {
      return await save()
    } finally {
      this.#underWay.delete(id)
    }
  }
}
