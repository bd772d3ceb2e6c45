import type { VmId } from '../../core/ids.ts'

/** Something that is kept of one file of each VM, which is its present one. */
export class KeptOfVms<T> {
  readonly #make: () => T
  readonly #present = new Map<VmId, { readonly file: string; readonly kept: T }>()

  constructor(make: () => T) {
    this.#make = make
  }

  /** Returns what is kept of a file. @param file names it among all that the VM ever has */
  of(id: VmId, file: string): T {
    const found = this.#present.get(id)
    if (found?.file === file) return found.kept
    const kept = this.#make()
    this.#present.set(id, { file, kept })
    return kept
  }

  forget(id: VmId): void {
    this.#present.delete(id)
  }
}
