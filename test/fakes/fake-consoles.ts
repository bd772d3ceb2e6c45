import { HostFault } from '../../src/core/errors.ts'
import { Listeners } from '../../src/lib/listeners.ts'
import { FakeSession, FakeTerminal } from './fake-session.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { ConsoleState } from '../../src/core/world/world.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Consoles, MovedConsole } from '../../src/ports/consoles.ts'
import type { FaultMoment } from './fault-switch.ts'

export type ConsolesMethod = Exclude<
  keyof Consoles,
  'session' | 'lastSession' | 'history' | 'passInput' | 'onSession' | 'onPlace'
>

/** State that outlives a daemon, by VM: the pty masters that systemd keeps, and the newest sessions. */
export type FakeDescriptorStore = {
  readonly terminals: Map<VmId, FakeTerminal>
  readonly sessions: Map<VmId, FakeTerminal>
  /** Maximum number of stored masters. */
  places: number
  refusing: boolean
  made: number
}

export const fakeDescriptorStore = (): FakeDescriptorStore => ({
  terminals: new Map(),
  sessions: new Map(),
  places: 1000,
  refusing: false,
  made: 0,
})

/** Consoles in memory. A new object on the same `store` is the daemon's next life, once it has adopted. */
export class FakeConsoles implements Consoles {
  readonly #faults = new FaultSwitch<ConsolesMethod>()
  /** The newest session of each VM, over or not. */
  readonly #sessions = new Map<VmId, FakeSession>()
  readonly #refused = new Set<VmId>()
  readonly #places = new Listeners<[VmId]>()
  readonly #begins = new Listeners<[VmId, FakeSession]>()
  readonly #store: FakeDescriptorStore

  constructor(store = fakeDescriptorStore()) {
    this.#store = store
  }

  /** Takes over the consoles that an earlier life stored; returns their number. */
  adopt(): number {
    for (const [id, terminal] of this.#store.sessions) {
      const session = this.#begin(id, terminal)
      if (this.#store.terminals.has(id)) session.attach(true, { holdsInput: true })
    }
    return this.#store.terminals.size
  }

  failNext(method: ConsolesMethod, fault: HostFault, moment?: FaultMoment): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** Sets how many places systemd has from now on. */
  limit(places: number): void {
    this.#store.places = places
  }

  /** The guest writes to its console. */
  say(id: VmId, text: string | Uint8Array): void {
    this.session(id)?.say(Buffer.from(text))
  }

  session(id: VmId): FakeSession | undefined {
    const session = this.#sessions.get(id)
    return session?.terminal.isOver === true ? undefined : session
  }

  lastSession(id: VmId): FakeSession | undefined {
    return this.#sessions.get(id)
  }

  history(id: VmId): MovedConsole | undefined {
    const terminal = this.#sessions.get(id)?.terminal
    if (terminal === undefined) return undefined
    const { sessionId, history, window } = terminal
    return { session: sessionId, end: history.end, window, output: history.since(0).bytes }
  }

  adoptHistory(id: VmId, moved: MovedConsole): Promise<void> {
    return this.#faults.run('adoptHistory', () => {
      const present = this.#sessions.get(id)
      if (present !== undefined && (!present.terminal.isOver || present.id === moved.session)) return
      const terminal = new FakeTerminal(++this.#store.made, moved)
      this.#store.sessions.set(id, terminal)
      this.#begin(id, terminal)
    })
  }

  onPlace(listener: (id: VmId) => void): () => void {
    return this.#places.add(listener)
  }

  onSession(listener: (id: VmId, session: FakeSession) => void): () => void {
    return this.#begins.add(listener)
  }

  inspect(id: VmId): Promise<ConsoleState> {
    return this.#faults.run('inspect', () => {
      const [stored, session] = [this.#store.terminals.get(id), this.#sessions.get(id)]
      if (session?.isAttached === true)
        return stored === undefined ? { kind: 'unstored' } : { kind: 'stored', ptsPath: stored.path }
      if (stored !== undefined) return { kind: 'unopened' }
      if (session === undefined) return { kind: 'absent' }
      return { kind: session.terminal.isOver ? 'ended' : 'detached' }
    })
  }

  ensureMaster(id: VmId): Promise<string> {
    return this.#faults.run('ensureMaster', () => {
      const { terminals, sessions, places, refusing } = this.#store
      if (refusing) throw new HostFault('console_unprotected', `storing console-${id} with systemd`)
      if (!terminals.has(id) && terminals.size >= places) {
        this.#refused.add(id)
        throw new HostFault('no_console_place', `storing console-${id} with systemd`)
      }
      const open = this.session(id)
      const terminal = open?.terminal ?? new FakeTerminal(++this.#store.made)
      if (open?.isAttached !== true) terminal.path = `/dev/pts/${++this.#store.made}`
      this.#refused.delete(id)
      terminals.set(id, terminal)
      sessions.set(id, terminal)
      if (open === undefined) this.#begin(id, terminal).attach(true)
      else if (!open.isAttached) open.attach(true, { holdsInput: true })
      return terminal.path
    })
  }

  passInput(id: VmId): void {
    this.#sessions.get(id)?.passInput()
  }

  removeMaster(id: VmId): Promise<void> {
    return this.#faults.run('removeMaster', () => {
      this.#sessions.get(id)?.attach(false)
      this.#free(id)
    })
  }

  endSession(id: VmId): Promise<void> {
    return this.#faults.run('endSession', () => {
      this.#sessions.get(id)?.end()
      this.#free(id)
    })
  }

  remove(id: VmId): Promise<void> {
    return this.#faults.run('remove', () => {
      this.#sessions.get(id)?.end()
      this.#sessions.delete(id)
      this.#store.sessions.delete(id)
      this.#free(id)
    })
  }

  places(): Promise<{ total: number; free: number }> {
    const { places, terminals } = this.#store
    return this.#faults.run('places', () => ({ total: places, free: Math.max(0, places - terminals.size) }))
  }

  /** Reboots the host: no process and no file in /run is left. */
  reboot(): void {
    this.#store.terminals.clear()
    this.#store.sessions.clear()
    this.#sessions.clear()
  }

  list(): Promise<readonly VmId[]> {
    return this.#faults.run('list', () => [
      ...new Set([...this.#store.terminals.keys(), ...this.#sessions.keys()]),
    ])
  }

  stored(): Promise<readonly VmId[]> {
    return this.#faults.run('stored', () =>
      [...this.#sessions].flatMap(([id, { isAttached }]) =>
        isAttached && this.#store.terminals.has(id) ? [id] : [],
      ),
    )
  }

  /** Ends this life: stored consoles stay stored. */
  close(): void {
    for (const session of this.#sessions.values()) session.forget()
    this.#sessions.clear()
  }

  #begin(id: VmId, terminal: FakeTerminal): FakeSession {
    const session = new FakeSession(terminal)
    this.#sessions.set(id, session)
    if (!terminal.isOver) this.#begins.notify(id, session)
    return session
  }

  #free(id: VmId): void {
    this.#store.terminals.delete(id)
    this.#refused.delete(id)
    const [next] = this.#refused
    if (next === undefined) return
    this.#refused.delete(next)
    this.#places.notify(next)
  }
}
