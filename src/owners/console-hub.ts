import { limits } from '../config/limits.ts'
import { Places } from '../core/console/places.ts'
import { WatchedConsole } from './watched-console.ts'
import type { ConsoleViewer } from '../core/console/console-viewer.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Consoles } from '../ports/consoles.ts'
import type { Watching } from './watched-console.ts'

export type ConsoleHubOptions = {
  readonly consoles: Pick<Consoles, 'session' | 'lastSession' | 'onSession'>
  /** The records of VMs, as far as their consoles depend on them. */
  readonly store: {
    readonly vms: { get(id: VmId): Pick<VmRecord, 'deleting'> | undefined }
    onVmChange(listener: (id: VmId) => void): () => void
  }
}

/** Viewers of serial consoles. A console that nobody watches costs nothing here. */
export class ConsoleHub {
  readonly #options: ConsoleHubOptions
  readonly #places = new Places(limits.consoleViewersMax)
  readonly #watched = new Map<VmId, WatchedConsole>()

  /** For as long as the daemon lives. */
  constructor(options: ConsoleHubOptions) {
    this.#options = options
    options.consoles.onSession((id, session) => this.#watched.get(id)?.begin(session))
    options.store.onVmChange((id) => this.#changed(id))
  }

  /** What there is to watch: a session with a terminal or without one, the output of the last session, or nothing. */
  standing(id: VmId): 'attached' | 'detached' | 'over' | 'none' {
    const session = this.#options.consoles.session(id)
    if (session !== undefined) return session.isAttached ? 'attached' : 'detached'
    return this.#options.consoles.lastSession(id) === undefined ? 'none' : 'over'
  }

  /** Viewers of this VM, and those who are about to be. */
  viewers(id: VmId): number {
    return this.#places.taken(id)
  }

  /** Takes a viewer's place; returns what gives it back, or undefined where there is none left. */
  reserve(id: VmId): (() => void) | undefined {
    return this.#places.take(id)
  }

  /** Shows the console to a viewer until that is closed. Its place is the caller's to give back. */
  watch(id: VmId, viewer: ConsoleViewer, watching: Watching): void {
    const watched = this.#watched.get(id) ?? this.#newWatched(id)
    watched.watch(viewer, watching)
  }

  #newWatched(id: VmId): WatchedConsole {
    const watched = new WatchedConsole({
      endsWith: () => (this.#isGone(id) ? 'vm_deleted' : undefined),
      lastSession: () => this.#options.consoles.lastSession(id),
      onEmpty: () => this.#watched.delete(id),
    })
    this.#watched.set(id, watched)
    const session = this.#options.consoles.session(id)
    if (session !== undefined) watched.begin(session)
    return watched
  }

  #changed(id: VmId): void {
    const watched = this.#watched.get(id)
    if (watched !== undefined && this.#options.store.vms.get(id) === undefined) watched.end('vm_deleted')
  }

  /** A VM under deletion comes to no other end. */
  #isGone(id: VmId): boolean {
    const record = this.#options.store.vms.get(id)
    return record === undefined || record.deleting
  }
}
