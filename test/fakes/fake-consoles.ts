import { HostFault } from '../../src/core/errors.ts'
import { Listeners } from '../../src/lib/listeners.ts'
import { FakeSession, FakeTerminal } from './fake-session.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { ConsoleState } from '../../src/core/plan/world.ts'
import type { VmId } from '../../src/core/vm/ids.ts'
import type { Consoles } from '../../src/ports/consoles.ts'
import type { FaultMoment } from './fault-switch.ts'

export type ConsolesMethod = 'inspect' | 'ensureMaster' | 'removeMaster' | 'list' | 'stored'

/** What outlives a daemon: the pty masters that systemd keeps, by VM. */
export type FakeDescriptorStore = {
  readonly terminals: Map<VmId, FakeTerminal>
  refusing: boolean
  made: number
}

export const fakeDescriptorStore = (): FakeDescriptorStore => ({
  terminals: new Map(),
  refusing: false,
  made: 0,
})

/** Consoles in memory. A new one on the same `store` is the daemon's next life, once it has adopted. */
export class FakeConsoles implements Consoles {
  readonly #faults = new FaultSwitch<ConsolesMethod>()
  readonly #open = new Map<VmId, FakeSession>()
  readonly #begins = new Listeners<[VmId, FakeSession]>()
  readonly #store: FakeDescriptorStore

  constructor(store = fakeDescriptorStore()) {
    this.#store = store
  }

  /** Takes over what an earlier life stored; returns how many consoles. */
  adopt(): number {
    for (const [id, terminal] of this.#store.terminals) this.#begin(id, terminal)
    return this.#open.size
  }

  failNext(method: ConsolesMethod, fault: HostFault, moment?: FaultMoment): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** The guest writes to its console. */
  say(id: VmId, text: string | Uint8Array): void {
    this.#open.get(id)?.say(Buffer.from(text))
  }

  session(id: VmId): FakeSession | undefined {
    return this.#open.get(id)
  }

  onSession(listener: (id: VmId, session: FakeSession) => void): () => void {
    return this.#begins.add(listener)
  }

  inspect(id: VmId): Promise<ConsoleState> {
    return this.#faults.run('inspect', () => {
      const [stored, open] = [this.#store.terminals.get(id), this.#open.has(id)]
      if (stored !== undefined && open) return { kind: 'stored', ptsPath: stored.path }
      return { kind: stored !== undefined || open ? 'unprotected' : 'absent' }
    })
  }

  ensureMaster(id: VmId): Promise<string> {
    return this.#faults.run('ensureMaster', () => {
      if (this.#store.refusing)
        throw new HostFault('console_unprotected', `storing console-${id} with systemd`)
      const open = this.#open.get(id)
      const terminal = open?.terminal ?? new FakeTerminal(++this.#store.made)
      this.#store.terminals.set(id, terminal)
      if (open === undefined) this.#begin(id, terminal)
      return terminal.path
    })
  }

  removeMaster(id: VmId): Promise<void> {
    return this.#faults.run('removeMaster', () => {
      const open = this.#open.get(id)
      this.#store.terminals.delete(id)
      this.#open.delete(id)
      open?.end()
    })
  }

  list(): Promise<readonly VmId[]> {
    return this.#faults.run('list', () => [
      ...new Set([...this.#store.terminals.keys(), ...this.#open.keys()]),
    ])
  }

  stored(): Promise<readonly VmId[]> {
    return this.#faults.run('stored', () =>
      [...this.#open.keys()].filter((id) => this.#store.terminals.has(id)),
    )
  }

  /** For the end of this life: what is stored stays stored. */
  close(): void {
    for (const session of this.#open.values()) session.forget()
    this.#open.clear()
  }

  #begin(id: VmId, terminal: FakeTerminal): void {
    const session = new FakeSession(terminal)
    this.#open.set(id, session)
    this.#begins.tell(id, session)
  }
}
