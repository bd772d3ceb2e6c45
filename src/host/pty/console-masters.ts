import { closeSync } from 'node:fs'
import { HostFault } from '../../core/errors.ts'
import type { ConsoleState } from '../../core/plan/world.ts'
import { consoleName, parseConsoleName } from '../../core/unit/unit-name.ts'
import type { VmId } from '../../core/vm/ids.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { Log } from '../../log/log.ts'
import type { Consoles } from '../../ports/consoles.ts'
import type { DescriptorStore } from '../systemd/descriptor-store.ts'
import { ConsoleMaster } from './console-master.ts'
import { hasSession } from './open-pty.ts'

/** The consoles of all VMs. A master is open here and stored with systemd, or it is on its way to one of both. */
export class ConsoleMasters implements Consoles {
  readonly #store: DescriptorStore
  readonly #log: Log
  readonly #masters = new Map<VmId, ConsoleMaster>()

  constructor({ store, log }: { readonly store: DescriptorStore; readonly log: Log }) {
    this.#store = store
    this.#log = log
  }

  /** Takes over what an earlier process stored, at start and before anything else; returns how many consoles. */
  adopt(): number {
    for (const { name, fd } of this.#store.takeInherited()) {
      const id = parseConsoleName(name)
      if (id === undefined) this.#log.warn({ descriptor: name }, 'a stored descriptor is not ours')
      else this.#adopt(id, fd)
    }
    return this.#masters.size
  }

  async inspect(id: VmId): Promise<ConsoleState> {
    const stored = (await this.#store.names()).has(consoleName(id))
    const master = this.#masters.get(id)
    if (master === undefined) return { kind: stored ? 'unprotected' : 'absent' }
    return stored ? { kind: 'stored', ptsPath: master.path } : { kind: 'unprotected' }
  }

  async ensureMaster(id: VmId): Promise<string> {
    const name = consoleName(id)
    const open = this.#masters.get(id)
    if (open !== undefined) {
      // It may be a running VM's: should this fail, the console stays as it was.
      await this.#store.store(name, open.fd)
      return open.path
    }
    // What is stored under the name and not open here is of no use to anybody.
    if ((await this.#store.names()).has(name)) await this.#store.remove(name)
    const made = this.#open(id)
    try {
      await this.#store.store(name, made.fd)
    } catch (error) {
      made.close()
      await this.#store.remove(name).catch(() => {})
      throw error
    }
    this.#masters.set(id, made)
    return made.path
  }

  async removeMaster(id: VmId): Promise<void> {
    await this.#store.remove(consoleName(id))
    this.#masters.get(id)?.close()
    this.#masters.delete(id)
  }

  async list(): Promise<readonly VmId[]> {
    const stored = [...(await this.#store.names())].map(parseConsoleName).filter((id) => id !== undefined)
    return [...new Set([...stored, ...this.#masters.keys()])]
  }

  async stored(): Promise<readonly VmId[]> {
    const names = await this.#store.names()
    return [...this.#masters.keys()].filter((id) => names.has(consoleName(id)))
  }

  history(id: VmId): Uint8Array {
    return this.#masters.get(id)?.output.since(0).bytes ?? new Uint8Array(0)
  }

  /** For the end of this process: what is stored stays stored, and the VMs live on. */
  close(): void {
    for (const master of this.#masters.values()) master.close()
    this.#masters.clear()
  }

  #open(id: VmId): ConsoleMaster {
    try {
      return ConsoleMaster.open(this.#log.child({ vm_id: id }))
    } catch (error) {
      throw new HostFault('console_unprotected', `making a pty for VM ${id}`, { cause: error })
    }
  }

  #adopt(id: VmId, fd: number): void {
    const earlier = this.#masters.get(id)
    if (earlier !== undefined && hasSession(earlier.fd)) {
      // A crash came between two consoles of one name; this one is not in use, and goes with the next removal.
      closeSync(fd)
      return
    }
    try {
      this.#masters.set(id, ConsoleMaster.adopt(fd, this.#log.child({ vm_id: id })))
      earlier?.close()
    } catch (error) {
      this.#log.error({ vm_id: id, reason: errorChain(error) }, 'a stored console cannot be used')
    }
  }
}
