import { limits } from '../config/limits.ts'
import type { VmId } from '../core/vm/ids.ts'

/**
 * The guests that are being saved by this process: few at a time, since they share the disk. Who was refused a place is
 * called when one is free, in the order of refusal.
 */
export class Saves {
  readonly #underWay = new Set<VmId>()
  readonly #waiting = new Set<VmId>()
  /** Called, and not seen since. */
  readonly #called = new Set<VmId>()
  readonly #call: (id: VmId) => void

  /** @param call asks for a pass of this VM */
  constructor(call: (id: VmId) => void) {
    this.#call = call
  }

  /** Whether one more may begin. */
  get mayBegin(): boolean {
    return this.#underWay.size < limits.savesMax
  }

  has(id: VmId): boolean {
    return this.#underWay.has(id)
  }

  /** The VM was refused. */
  waitForPlace(id: VmId): void {
    this.#waiting.add(id)
  }

  async run<T>(id: VmId, save: () => Promise<T>): Promise<T> {
    this.#underWay.add(id)
    this.#waiting.delete(id)
    this.#called.delete(id)
    try {
      return await save()
    } finally {
      this.#underWay.delete(id)
      this.#callNext()
    }
  }

  /** A pass of the VM ended: where it was called and did not want its place any more, the next one is. */
  passOver(id: VmId): void {
    if (this.#called.delete(id)) this.#callNext()
  }

  /** The VM has no worker any more. */
  forget(id: VmId): void {
    this.#waiting.delete(id)
    this.passOver(id)
  }

  #callNext(): void {
    const [next] = this.#waiting
    if (next === undefined || !this.mayBegin) return
    this.#waiting.delete(next)
    this.#called.add(next)
    this.#call(next)
  }
}
