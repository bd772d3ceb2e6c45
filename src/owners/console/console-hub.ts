import { consoleGuest, ViewerPlaces } from '../../core/console/console-viewer.ts'
import { hasLeft, nodeAfter } from '../../core/vm/leaving.ts'
import { WatchedConsole } from './watched-console.ts'
import type {
  ConsoleGuest,
  ConsoleRecord,
  ConsoleViewer,
  ViewerOf,
} from '../../core/console/console-viewer.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Consoles } from '../../ports/consoles.ts'
import type { Closing, Watching } from './watched-console.ts'

export type ConsoleHubOptions = {
  readonly consoles: Pick<Consoles, 'session' | 'lastSession' | 'onSession'>
  /** The records of VMs, limited to what their consoles depend on. */
  readonly store: {
    readonly vms: { get(id: VmId): (Pick<VmRecord, 'deleting' | 'departure'> & ConsoleRecord) | undefined }
    onVmChange(listener: (id: VmId) => void): () => void
  }
}

/** Shows serial consoles to viewers. A console without viewers costs nothing here. */
export class ConsoleHub {
  readonly #options: ConsoleHubOptions
  readonly #places = new ViewerPlaces()
  readonly #watched = new Map<VmId, WatchedConsole>()

  /** The hub lives as long as the daemon. */
  constructor(options: ConsoleHubOptions) {
    this.#options = options
    options.consoles.onSession((id, session) => this.#watched.get(id)?.begin(session))
    options.store.onVmChange((id) => this.#changed(id))
  }

  /**
   * Returns what there is to watch: a session with a terminal, a session without one, the output of the last session,
   * or nothing.
   */
  standing(id: VmId): 'attached' | 'detached' | 'over' | 'none' {
    const session = this.#options.consoles.session(id)
    if (session !== undefined) return session.isAttached ? 'attached' : 'detached'
    return this.#options.consoles.lastSession(id) === undefined ? 'none' : 'over'
  }

  /**
   * Returns the kept output of the session, or of the last one; undefined without either. `isCut`: earlier output of it
   * is lost.
   */
  output(id: VmId): { readonly bytes: Uint8Array; readonly isCut: boolean } | undefined {
    const session = this.#options.consoles.session(id)
    const shown = session ?? this.#options.consoles.lastSession(id)
    if (shown === undefined) return undefined
    const { start, bytes } = shown.output.since(shown.output.start)
    session?.spend(bytes.length)
    return { bytes, isCut: start > 0 }
  }

  /** Returns the number of viewers of this VM, including those that are about to watch. */
  viewers(id: VmId): number {
    return this.#places.taken(id)
  }

  /** Takes a viewer's place; returns the function that gives it back, or undefined if there is none left. */
  reserve(id: VmId, of: ViewerOf): (() => void) | undefined {
    return this.#places.take(id, of)
  }

  /** Shows the console to a viewer until either is closed. The caller gives the viewer's place back. */
  watch(id: VmId, viewer: ConsoleViewer, watching: Watching): void {
    const watched = this.#watched.get(id) ?? this.#newWatched(id)
    watched.watch(viewer, watching)
  }

  #newWatched(id: VmId): WatchedConsole {
    const watched = new WatchedConsole({
      guest: () => this.#guestOf(id),
      endsWith: () => this.#endOf(id),
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
    if (watched === undefined) return
    const record = this.#options.store.vms.get(id)
    // The guest of a VM that was released runs elsewhere, also while its session is still here.
    if (record === undefined || hasLeft(record)) watched.end(this.#endOf(id))
    else watched.noteGuest(consoleGuest(record))
  }

  #guestOf(id: VmId): ConsoleGuest | undefined {
    const record = this.#options.store.vms.get(id)
    return record && consoleGuest(record)
  }

  /** Returns how viewers are closed if the VM has no later session here: it has left, is gone, or is being deleted. */
  #endOf(id: VmId): Closing | undefined {
    const record = this.#options.store.vms.get(id)
    const node = record && nodeAfter(record)
    if (node !== undefined) return { code: 'vm_moved', words: node }
    return record === undefined || record.deleting ? { code: 'vm_deleted' } : undefined
  }
}
