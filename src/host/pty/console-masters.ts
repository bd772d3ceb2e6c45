import { closeSync } from 'node:fs'
import { HostFault } from '../../core/errors.ts'
import { consoleName, parseConsoleName } from '../../core/unit/unit-name.ts'
import { Listeners } from '../../lib/listeners.ts'
import { errorChain } from '../../log/error-chain.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { ConsoleHistory } from './console-history.ts'
import { ConsoleMaster, sharedBudget } from './console-master.ts'
import { HistoryFiles } from './history-files.ts'
import { hasSession } from './open-pty.ts'
import type { ConsoleState } from '../../core/plan/world.ts'
import type { VmId } from '../../core/vm/ids.ts'
import type { Log } from '../../log/log.ts'
import type { MasterOptions } from './console-master.ts'
import type { ConsoleSession, Consoles } from '../../ports/consoles.ts'
import type { DescriptorStore } from '../systemd/descriptor-store.ts'

export type ConsoleMastersOptions = {
  readonly store: DescriptorStore
  /** Histories are kept below it, in `console/`: on a file system in memory, for it must be gone after a reboot. */
  readonly runDirectory: string
  readonly log: Log
}

/** The consoles of all VMs. A master is open here and stored with systemd, or it is on its way to one of both. */
export class ConsoleMasters implements Consoles {
  readonly #store: DescriptorStore
  readonly #files: HistoryFiles
  readonly #log: Log
  readonly #shared = sharedBudget()
  readonly #masters = new Map<VmId, ConsoleMaster>()
  readonly #begins = new Listeners<[VmId, ConsoleSession]>()

  constructor({ store, runDirectory, log }: ConsoleMastersOptions) {
    this.#store = store
    this.#files = new HistoryFiles(`${runDirectory}/console`)
    this.#log = log
  }

  /** Takes over what an earlier process stored, at start and before anything else; returns how many consoles. */
  adopt(): number {
    const stored = new Map<VmId, number[]>()
    for (const { name, fd } of this.#store.takeInherited()) {
      const id = parseConsoleName(name)
      if (id === undefined) this.#log.warn({ descriptor: name }, 'a stored descriptor is not ours')
      else stored.set(id, [...(stored.get(id) ?? []), fd])
    }
    for (const [id, fds] of stored) this.#adopt(id, fds)
    this.#removeLeftFiles()
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
      made.end()
      this.#files.remove(id)
      await this.#store.remove(name).catch(() => {})
      throw error
    }
    this.#begin(id, made)
    return made.path
  }

  async removeMaster(id: VmId): Promise<void> {
    // First, for it may fail, and the console is then as it was.
    await this.#store.remove(consoleName(id))
    const master = this.#masters.get(id)
    this.#masters.delete(id)
    master?.end()
    this.#files.remove(id)
  }

  async list(): Promise<readonly VmId[]> {
    const stored = [...(await this.#store.names())].map(parseConsoleName).filter((id) => id !== undefined)
    return [...new Set([...stored, ...this.#masters.keys()])]
  }

  async stored(): Promise<readonly VmId[]> {
    const names = await this.#store.names()
    return [...this.#masters.keys()].filter((id) => names.has(consoleName(id)))
  }

  session(id: VmId): ConsoleSession | undefined {
    return this.#masters.get(id)
  }

  onSession(listener: (id: VmId, session: ConsoleSession) => void): () => void {
    return this.#begins.add(listener)
  }

  /** For the end of this process: what is stored stays stored, and the VMs live on. */
  close(): void {
    for (const master of this.#masters.values()) master.close()
    this.#masters.clear()
  }

  #open(id: VmId): ConsoleMaster {
    try {
      const history = this.#files.create(id)
      try {
        return ConsoleMaster.open(this.#optionsOf(id, history))
      } catch (error) {
        history.release()
        this.#files.remove(id)
        throw error
      }
    } catch (error) {
      throw new HostFault('console_unprotected', `making a pty for VM ${id}`, { cause: error })
    }
  }

  #optionsOf(id: VmId, history: ConsoleHistory): MasterOptions {
    return { history, log: this.#log.child({ vm_id: id }), shared: this.#shared }
  }

  #begin(id: VmId, master: ConsoleMaster): void {
    this.#masters.set(id, master)
    this.#begins.tell(id, master)
  }

  /** A crash may have come between two masters of one name: the one in use is the console; the others go with it. */
  #adopt(id: VmId, fds: readonly number[]): void {
    const byUse = fds.toReversed().toSorted((a, b) => Number(hasSession(b)) - Number(hasSession(a)))
    for (const fd of byUse) {
      if (this.#masters.has(id)) closeSync(fd)
      else this.#adoptMaster(id, fd)
    }
  }

  #adoptMaster(id: VmId, fd: number): void {
    const history = this.#adoptHistory(id)
    let master
    try {
      master = ConsoleMaster.adopt(fd, this.#optionsOf(id, history))
    } catch (error) {
      history.release()
      this.#log.error({ vm_id: id, reason: errorChain(error) }, 'a stored console cannot be used')
      return
    }
    this.#begin(id, master)
  }

  /** A VM runs on this console: whatever is wrong with its history, it gets one. */
  #adoptHistory(id: VmId): ConsoleHistory {
    try {
      return this.#files.open(id)
    } catch (error) {
      // A VM that an earlier version started has none.
      if (!hasErrno(error, 'ENOENT')) {
        const reason = errorChain(error)
        this.#log.warn({ vm_id: id, reason }, 'the history of a console cannot be used; a new session begins')
      }
    }
    try {
      return this.#files.create(id)
    } catch (error) {
      const reason = errorChain(error)
      this.#log.warn({ vm_id: id, reason }, 'the history of a console does not outlive this process')
      return ConsoleHistory.inMemory()
    }
  }

  #removeLeftFiles(): void {
    try {
      this.#files.removeAllBut(new Set(this.#masters.keys()))
    } catch (error) {
      this.#log.warn(
        { reason: errorChain(error) },
        'histories of consoles that are gone could not be removed',
      )
    }
  }
}
