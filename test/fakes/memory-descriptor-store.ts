import { closeSync } from 'node:fs'
import { HostFault } from '../../src/core/errors.ts'
import { duplicate } from '../../src/host/ffi/descriptor.ts'
import type { DescriptorStore } from '../../src/host/systemd/descriptor-store.ts'
import type { InheritedDescriptor } from '../../src/host/systemd/descriptor-store.ts'

/** Keeps duplicates of descriptors in this process, as systemd does in its own. */
export class MemoryDescriptorStore implements DescriptorStore {
  refusing = false
  /** Maximum number of stored descriptors. */
  max = Infinity
  readonly #entries: { readonly name: string; readonly fd: number }[] = []

  takeInherited(): readonly InheritedDescriptor[] {
    return this.#entries.map(({ name, fd }) => ({ name, fd: duplicate(fd) }))
  }

  async store(name: string, fd: number): Promise<void> {
    if (this.refusing) throw new HostFault('console_unprotected', `storing ${name}`)
    if (this.#entries.length >= this.max) throw new HostFault('no_console_place', `storing ${name}`)
    this.#entries.push({ name, fd: duplicate(fd) })
  }

  async remove(name: string): Promise<void> {
    for (let at = this.#entries.length - 1; at >= 0; at--) {
      if (this.#entries[at]?.name !== name) continue
      const [removed] = this.#entries.splice(at, 1)
      if (removed !== undefined) closeSync(removed.fd)
    }
  }

  async names(): Promise<ReadonlySet<string>> {
    return new Set(this.#entries.map(({ name }) => name))
  }

  async places(): Promise<{ total: number; free: number }> {
    return { total: this.max, free: this.max - this.#entries.length }
  }

  close(): void {
    for (const { fd } of this.#entries.splice(0)) closeSync(fd)
  }
}
