import { limits } from '../../config/limits.ts'
import { vmToWire } from '../wire/vm-to-wire.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { RevisionOf } from '../../store/vm/summaries.ts'

/** A page of a list without the VMs themselves. */
type Page = {
  readonly items: readonly RevisionOf[]
  readonly revision: number
  readonly next_cursor?: string
}
type Kept = { readonly revision: number; readonly text: string }

/**
 * Keeps VMs as the text that is sent, each until it has another revision. Most VMs have not changed since the last
 * time, and to read and write each of them again takes most of the time of an answer.
 */
export class KeptVms {
  readonly #kept = new Map<VmId, Kept>()
  #characters = 0

  /**
   * Returns a page as JSON. `read` is called for the VMs whose text is not kept; one that it does not find is left out.
   */
  pageText({ items, ...rest }: Page, read: (id: VmId) => VmRecord | undefined): string {
    const texts = items.flatMap((vm) => {
      const kept = this.#find(vm)
      if (kept !== undefined) return kept
      const record = read(vm.id)
      return record === undefined ? [] : this.#write(vm, record)
    })
    return `{"items":[${texts.join(',')}],${JSON.stringify(rest).slice(1)}`
  }

  /** Returns a VM as JSON. `read` is called if its text is not kept. */
  text(vm: RevisionOf, read: (id: VmId) => VmRecord): string {
    return this.#find(vm) ?? this.#write(vm, read(vm.id))
  }

  #find({ id, revision }: RevisionOf): string | undefined {
    const kept = this.#kept.get(id)
    return kept?.revision === revision ? kept.text : undefined
  }

  #write({ id, revision }: RevisionOf, record: VmRecord): string {
    const text = JSON.stringify(vmToWire(record))
    this.#keep(id, { revision, text })
    return text
  }

  #keep(id: VmId, kept: Kept): void {
    this.#drop(id)
    this.#kept.set(id, kept)
    this.#characters += kept.text.length
    for (const oldest of this.#kept.keys()) {
      if (this.#characters <= limits.keptVmsCharactersMax) return
      this.#drop(oldest)
    }
  }

  #drop(id: VmId): void {
    this.#characters -= this.#kept.get(id)?.text.length ?? 0
    this.#kept.delete(id)
  }
}
