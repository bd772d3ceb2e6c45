import type { VmId } from '../core/ids.ts'

/**
 * Limits how many guests are saved at once, or restored at once after a boot or a maintenance of the host, because they
 * share the disk. A VM that was refused a place is called when one is free, in order of refusal.
 */
export class PlaceQueue {
  readonly #underWay = new Set<VmId>()
  readonly #waiting = new Set<VmId>()
  /** VMs that were called and whose pass has not run since. */
  readonly #called = new Set<VmId>()
  readonly #max: number
  readonly #call: (id: VmId) => void

  /** @param call asks for a pass of this VM */
  constructor(max: number, call: (id: VmId) => void) {
    this.#max = max
    this.#call = call
  }

  /** Returns whether one more VM may begin. */
  get mayBegin(): boolean {
    return this.#underWay.size < this.#max
  }

  has(id: VmId): boolean {
    return this.#underWay.has(id)
  }

  /** Notes that the VM was refused a place. */
  waitForPlace(id: VmId): void {
    this.#waiting.add(id)
  }

  async run<T>(id: VmId, work: () => Promise<T>): Promise<T> {
    this.#underWay.add(id)
    this.#waiting.delete(id)
    this.#called.delete(id)
    try {
      return await work()
    } finally {
      this.#underWay.delete(id)
      this.#callNext()
    }
  }

  /** Handles the end of a VM's pass. If the VM was called but did not use its place, the next VM is called. */
  passEnded(id: VmId): void {
    if (this.#called.delete(id)) this.#callNext()
  }

  /** Forgets a VM that has no worker any more. */
  forget(id: VmId): void {
    this.#waiting.delete(id)
    this.passEnded(id)
  }

  #callNext(): void {
    const [next] = this.#waiting
    if (next === undefined || !this.mayBegin) return
    this.#waiting.delete(next)
    this.#called.add(next)
    this.#call(next)
  }
}
