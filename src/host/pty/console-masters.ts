import { closeSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { consoleName, parseConsoleName } from '../../core/unit/unit-spec.ts'
import { Listeners } from '../../lib/listeners.ts'
import { errorChain } from '../../log/error-chain.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { ConsoleHistory } from './console-history.ts'
import { ConsoleMaster, sharedBudget } from './console-master.ts'
import { HistoryFiles } from './history-files.ts'
import { hasSession } from './open-pty.ts'
import { PtySession } from './pty-session.ts'
import type { ConsoleState } from '../../core/world/world.ts'
import type { VmId } from '../../core/ids.ts'
import type { Log } from '../../log/log.ts'
import type { ConsoleSession, Consoles, MovedConsole, SessionOutput } from '../../ports/consoles.ts'
import type { InputTerms } from './pty-session.ts'
import type { DescriptorStore } from '../systemd/descriptor-store.ts'

export type ConsoleMastersOptions = {
  readonly store: DescriptorStore
  /**
   * The parent of the directory `console/`, which has the histories. It must be on a file system in memory, so that a
   * reboot removes it.
   */
  readonly runDirectory: string
  readonly log: Log
}

/** The consoles of all VMs. Each master is open here and stored with systemd, or is about to be. */
export class ConsoleMasters implements Consoles {
  readonly #store: DescriptorStore
  readonly #files: HistoryFiles
  readonly #log: Log
  readonly #shared = sharedBudget()
  /** The newest session of each VM, over or not. */
  readonly #sessions = new Map<VmId, PtySession>()
  /** Masters that an earlier process left of each VM, until they are adopted; none if only its history is left. */
  readonly #left = new Map<VmId, readonly number[]>()
  readonly #begins = new Listeners<[VmId, ConsoleSession]>()
  /** The VMs for which the store had no place, the longest waiting first. */
  readonly #refused = new Set<VmId>()
  readonly #places = new Listeners<[VmId]>()

  constructor({ store, runDirectory, log }: ConsoleMastersOptions) {
    this.#store = store
    this.#files = new HistoryFiles(`${runDirectory}/console`)
    this.#log = log
  }

  /**
   * Takes over what an earlier process left, and resolves with the number of VMs whose master it adopted. Must be
   * called first, at start. A console that is asked for meanwhile is adopted at once.
   */
  async adopt(): Promise<number> {
    for (const { name, fd } of this.#store.takeInherited()) {
      const id = parseConsoleName(name)
      if (id === undefined) this.#log.warn({ descriptor: name }, 'a stored descriptor is not ours')
      else this.#left.set(id, [...(this.#left.get(id) ?? []), fd])
    }
    const stored = [...this.#left.keys()]
    for (const id of this.#histories()) if (!this.#left.has(id)) this.#left.set(id, [])
    let taken = 0
    for (const id of this.#left.keys()) {
      this.#session(id)
      taken += 1
      if (taken % limits.consolesATurn === 0) await nextTurn()
    }
    return stored.filter((id) => this.#sessions.get(id)?.isAttached === true).length
  }

  async inspect(id: VmId): Promise<ConsoleState> {
    const isStored = (await this.#store.names()).has(consoleName(id))
    const session = this.#session(id)
    if (session?.master !== undefined)
      return isStored ? { kind: 'stored', ptsPath: session.master.path } : { kind: 'unstored' }
    if (isStored) return { kind: 'unopened' }
    if (session === undefined) return { kind: 'absent' }
    return { kind: session.isOver ? 'ended' : 'detached' }
  }

  async ensureMaster(id: VmId): Promise<string> {
    const session = this.#session(id)
    if (session?.master !== undefined) {
      // A running VM may be using this master: if storing fails, the console stays as it was.
      await this.#storeMaster(id, session.master)
      return session.master.path
    }
    const name = consoleName(id)
    // A master that is stored under the name but not open here is useless.
    if ((await this.#store.names()).has(name)) await this.#store.remove(name)
    return session === undefined || session.isOver ? this.#beginSession(id) : this.#attachNew(id, session)
  }

  passInput(id: VmId): void {
    this.#sessions.get(id)?.passInput()
  }

  async removeMaster(id: VmId): Promise<void> {
    await this.#release(id)
    await this.#session(id)?.detach()
    this.#offerPlace()
  }

  async endSession(id: VmId): Promise<void> {
    await this.#release(id)
    await this.#session(id)?.end()
    this.#offerPlace()
  }

  async remove(id: VmId): Promise<void> {
    await this.endSession(id)
    this.#forget(id)
    this.#files.remove(id)
  }

  async list(): Promise<readonly VmId[]> {
    const stored = [...(await this.#store.names())].map(parseConsoleName).filter((id) => id !== undefined)
    return [...new Set([...stored, ...this.#left.keys(), ...this.#sessions.keys()])]
  }

  async stored(): Promise<readonly VmId[]> {
    const names = await this.#store.names()
    for (const id of this.#left.keys()) this.#adoptLeft(id)
    return [...this.#sessions].flatMap(([id, { isAttached }]) =>
      isAttached && names.has(consoleName(id)) ? [id] : [],
    )
  }

  places(): Promise<{ total: number; free: number }> {
    return this.#store.places()
  }

  session(id: VmId): ConsoleSession | undefined {
    const session = this.#session(id)
    return session?.isOver === true ? undefined : session
  }

  lastSession(id: VmId): SessionOutput | undefined {
    return this.#session(id)
  }

  history(id: VmId): MovedConsole | undefined {
    const history = this.#session(id)?.history
    if (history === undefined) return undefined
    const { session, window, ring } = history
    return { session, end: ring.end, window, output: ring.since(0).bytes }
  }

  async adoptHistory(id: VmId, moved: MovedConsole): Promise<void> {
    const present = this.#session(id)
    if (present !== undefined && (!present.isOver || present.id === moved.session)) return
    const history = this.#create(id, moved)
    this.#files.keep(id)
    this.#forget(id)
    this.#begin(id, history)
  }

  onSession(listener: (id: VmId, session: ConsoleSession) => void): () => void {
    return this.#begins.add(listener)
  }

  onPlace(listener: (id: VmId) => void): () => void {
    return this.#places.add(listener)
  }

  /** Closes everything at the end of this process. Stored masters stay stored, and the VMs live on. */
  close(): void {
    for (const session of this.#sessions.values()) session.close()
    this.#sessions.clear()
    for (const fd of [...this.#left.values()].flat()) closeSync(fd)
    this.#left.clear()
  }

  /**
   * Removes the master from the store. That comes before closing anything here: if it fails, the console is unchanged.
   */
  async #release(id: VmId): Promise<void> {
    this.#refused.delete(id)
    await this.#store.remove(consoleName(id))
  }

  /** Notifies the VM that was refused longest that a place may be free. */
  #offerPlace(): void {
    const [next] = this.#refused
    if (next === undefined) return
    this.#refused.delete(next)
    this.#places.notify(next)
  }

  async #storeMaster(id: VmId, { fd }: ConsoleMaster): Promise<void> {
    try {
      await this.#store.store(consoleName(id), fd)
      this.#refused.delete(id)
    } catch (error) {
      if (error instanceof HostFault && error.code === 'no_console_place') this.#refused.add(id)
      throw error
    }
  }

  /** Begins a session. The VM's earlier session, and its output, stay until the new one can be used. */
  async #beginSession(id: VmId): Promise<string> {
    const { history, master } = this.#open(id)
    try {
      await this.#storeMaster(id, master)
      this.#files.keep(id)
    } catch (error) {
      master.close()
      await master.closed
      history.release()
      this.#files.discard(id)
      await this.#store.remove(consoleName(id)).catch(() => {})
      throw error
    }
    this.#forget(id)
    this.#begin(id, history, master)
    return master.path
  }

  /** Continues a session that has no master, with a new one. */
  async #attachNew(id: VmId, session: PtySession): Promise<string> {
    const master = this.#openPty(id, session.history)
    try {
      await this.#storeMaster(id, master)
    } catch (error) {
      master.close()
      await master.closed
      await this.#store.remove(consoleName(id)).catch(() => {})
      throw error
    }
    session.attach(master, { holdsInput: true })
    return master.path
  }

  #open(id: VmId): { history: ConsoleHistory; master: ConsoleMaster } {
    const history = this.#create(id)
    try {
      return { history, master: this.#openPty(id, history) }
    } catch (error) {
      history.release()
      this.#files.discard(id)
      throw error
    }
  }

  #create(id: VmId, moved?: MovedConsole): ConsoleHistory {
    try {
      return this.#files.create(id, moved)
    } catch (error) {
      const doing = `making a history for the console of VM ${id}`
      throw new HostFault('console_unprotected', doing, { cause: error })
    }
  }

  #openPty(id: VmId, history: ConsoleHistory): ConsoleMaster {
    try {
      return ConsoleMaster.open({ history, log: this.#logOf(id), shared: this.#shared })
    } catch (error) {
      throw new HostFault('console_unprotected', `making a pty for VM ${id}`, { cause: error })
    }
  }

  #logOf(id: VmId): Log {
    return this.#log.child({ vm_id: id })
  }

  #begin(id: VmId, history: ConsoleHistory, master?: ConsoleMaster, terms?: InputTerms): void {
    const session = new PtySession({ id, history, files: this.#files, log: this.#logOf(id) })
    this.#sessions.set(id, session)
    if (master !== undefined) session.attach(master, terms)
    if (!session.isOver) this.#begins.notify(id, session)
  }

  /** Returns the newest session of a VM. */
  #session(id: VmId): PtySession | undefined {
    this.#adoptLeft(id)
    return this.#sessions.get(id)
  }

  /** Drops a session. Nothing may read into its history any longer. */
  #forget(id: VmId): void {
    this.#session(id)?.history.release()
    this.#sessions.delete(id)
  }

  /**
   * Adopts what an earlier process left of a VM's console, once. After a crash there may be several masters: the one in
   * use is the console, and the others are closed. Without a master it is the session of a VM that sleeps, or the last
   * one of a stopped VM.
   */
  #adoptLeft(id: VmId): void {
    const fds = this.#left.get(id)
    if (fds === undefined) return
    this.#left.delete(id)
    // Of those in use the newest comes first, and then of the others.
    const newestFirst = fds.toReversed()
    const used = new Set(newestFirst.filter((fd) => hasSession(fd)))
    const unused = newestFirst.filter((fd) => !used.has(fd))
    for (const fd of [...used, ...unused]) {
      if (this.#sessions.has(id)) closeSync(fd)
      else this.#adoptMaster(id, fd)
    }
    if (!this.#sessions.has(id)) this.#adoptHistoryAlone(id)
  }

  #adoptMaster(id: VmId, fd: number): void {
    const history = this.#historyOfLeft(id)
    let master
    try {
      master = ConsoleMaster.adopt(fd, { history, log: this.#logOf(id), shared: this.#shared })
    } catch (error) {
      history.release()
      this.#log.error({ vm_id: id, reason: errorChain(error) }, 'stored console not usable')
      return
    }
    // The guest may be being restored.
    this.#begin(id, history, master, { holdsInput: true })
  }

  /** Returns the history of a master that an earlier process left; a new one if there is none that can be used. */
  #historyOfLeft(id: VmId): ConsoleHistory {
    try {
      const history = this.#files.open(id)
      if (!history.isOver) return history
      // The daemon ended between two sessions.
      history.release()
    } catch (error) {
      // If there is none, an earlier version of the daemon made the console.
      if (!hasErrno(error, 'ENOENT', 'ENOTDIR')) {
        const reason = errorChain(error)
        this.#log.warn({ vm_id: id, reason }, 'console history not usable; new session started')
      }
    }
    try {
      const history = this.#files.create(id)
      this.#files.keep(id)
      return history
    } catch (error) {
      const reason = errorChain(error)
      this.#log.warn({ vm_id: id, reason }, 'console history kept in memory only')
      return ConsoleHistory.inMemory()
    }
  }

  #histories(): readonly VmId[] {
    try {
      return this.#files.list()
    } catch (error) {
      this.#log.warn({ reason: errorChain(error) }, 'console histories not listed')
      return []
    }
  }

  #adoptHistoryAlone(id: VmId): void {
    try {
      this.#begin(id, this.#files.open(id))
    } catch (error) {
      if (hasErrno(error, 'ENOENT')) return
      this.#log.warn({ vm_id: id, reason: errorChain(error) }, 'console history not usable')
      this.#files.remove(id)
    }
  }
}
