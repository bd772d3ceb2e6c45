import { limits } from '../../src/config/limits.ts'
import { Ring } from '../../src/core/console/ring.ts'
import { HostFault } from '../../src/core/errors.ts'
import type { ConsoleState } from '../../src/core/plan/world.ts'
import type { VmId } from '../../src/core/vm/ids.ts'
import type { Consoles } from '../../src/ports/consoles.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type ConsolesMethod = 'inspect' | 'ensureMaster' | 'removeMaster' | 'list' | 'stored'

/** What outlives a daemon: the pty masters that systemd keeps, by VM. */
export type FakeDescriptorStore = { readonly paths: Map<VmId, string>; refusing: boolean; made: number }

export const fakeDescriptorStore = (): FakeDescriptorStore => ({ paths: new Map(), refusing: false, made: 0 })

/** Consoles in memory. A new one on the same `store` is the daemon's next life. */
export class FakeConsoles implements Consoles {
  readonly #faults = new FaultSwitch<ConsolesMethod>()
  readonly #open: Map<VmId, { readonly path: string; readonly output: Ring }>
  readonly #store: FakeDescriptorStore

  constructor(store = fakeDescriptorStore()) {
    this.#store = store
    this.#open = new Map([...store.paths].map(([id, path]) => [id, openAt(path)]))
  }

  failNext(method: ConsolesMethod, fault: HostFault, moment?: FaultMoment): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** The guest writes to its console. */
  say(id: VmId, text: string): void {
    this.#open.get(id)?.output.write(Buffer.from(text))
  }

  inspect(id: VmId): Promise<ConsoleState> {
    return this.#faults.run('inspect', () => {
      const stored = this.#store.paths.get(id)
      if (stored !== undefined) return { kind: 'stored', ptsPath: stored }
      return { kind: this.#open.has(id) ? 'unprotected' : 'absent' }
    })
  }

  ensureMaster(id: VmId): Promise<string> {
    return this.#faults.run('ensureMaster', () => {
      if (this.#store.refusing)
        throw new HostFault('console_unprotected', `storing console-${id} with systemd`)
      const console = this.#open.get(id) ?? openAt(`/dev/pts/${++this.#store.made}`)
      this.#open.set(id, console)
      this.#store.paths.set(id, console.path)
      return console.path
    })
  }

  removeMaster(id: VmId): Promise<void> {
    return this.#faults.run('removeMaster', () => {
      this.#store.paths.delete(id)
      this.#open.delete(id)
    })
  }

  list(): Promise<readonly VmId[]> {
    return this.#faults.run('list', () => [...new Set([...this.#store.paths.keys(), ...this.#open.keys()])])
  }

  stored(): Promise<readonly VmId[]> {
    return this.#faults.run('stored', () => [...this.#store.paths.keys()])
  }

  history(id: VmId): Uint8Array {
    return this.#open.get(id)?.output.since(0).bytes ?? new Uint8Array(0)
  }
}

const openAt = (path: string): { readonly path: string; readonly output: Ring } => ({
  path,
  output: new Ring(limits.consoleHistoryBytes),
})
