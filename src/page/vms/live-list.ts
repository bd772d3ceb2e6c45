import { ApiProblem } from '../../client/api-problem.ts'
import { limits } from '../../config/limits.ts'
import { isNews, withChanges } from './inventory.ts'
import { statusOfFailure } from './status.ts'
import type { Sync } from './capacity.ts'
import type { Inventory, VmList } from './inventory.ts'
import type { Status } from './status.ts'

export type FollowListeners = {
  /** Called for each event with its number, and with 0 if events are missing. */
  readonly onEvent: (sequence: number) => void
  /** Called when the stream opens and when it is lost; then `onEvent` follows with 0. */
  readonly onOpen: (isOpen: boolean) => void
}

/** The daemon that served the page. Its methods reject as `statusOfFailure` describes. */
export type Daemon = {
  /** Reads the whole list. */
  list(signal: AbortSignal): Promise<Inventory>
  /** Reads what has changed since a revision: at most `limits.listItemsMax` VMs, the oldest change first. */
  changes(after: number, signal: AbortSignal): Promise<VmList>
  sync(signal: AbortSignal): Promise<Sync>
  /** Follows the events after a number, over lost connections too, until the returned function is called. */
  follow(after: number, listeners: FollowListeners): () => void
}

/** The page's side of the browser. */
export type Platform = {
  monotonicMs(): number
  /** Milliseconds since the epoch, by the clock of the browser. */
  epochMs(): number
  /** Resolves after so many milliseconds, or rejects when the signal is raised. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
  readonly isHidden: boolean
  /** Resolves when the page can be seen. */
  visible(): Promise<void>
}

/** Everything that the page shows. Members that are undefined are not known yet. */
export type Picture = {
  readonly status: Status
  readonly inventory: Inventory | undefined
  readonly sync: Sync | undefined
  /** Why the capacity is not known; undefined if it is. */
  readonly trouble: string | undefined
  /** Milliseconds by which the clock of the host is ahead of the browser's. */
  readonly aheadMs: number
}

/**
 * Keeps a picture of the host current. An event only says that something changed; then one request reads all changes,
 * so a burst of events costs one request, and nothing depends on the events alone.
 */
export class LiveList {
  readonly #daemon: Daemon
  readonly #platform: Platform
  readonly #show: (picture: Picture) => void
  #picture: Picture = {
    status: { kind: 'loading' },
    inventory: undefined,
    sync: undefined,
    trouble: undefined,
    aheadMs: 0,
  }
  #unfollow: (() => void) | undefined
  /** Undefined while a stream is asked for and has not answered yet. */
  #isFollowed: boolean | undefined
  #poked = Promise.withResolvers<void>()
  #syncedMs = Number.NEGATIVE_INFINITY

  constructor(daemon: Daemon, platform: Platform, show: (picture: Picture) => void) {
    this.#daemon = daemon
    this.#platform = platform
    this.#show = show
  }

  /** Shows the host until the signal is raised or the daemon refuses; may be called again after a refusal. */
  async run(signal: AbortSignal): Promise<void> {
    let failures = 0
    this.#update({ status: { kind: 'loading' } })
    try {
      for (;;) {
        const beganMs = this.#platform.monotonicMs()
        await this.#refresh(signal)
        // End before the rest: the reader may ask to try again at once, and that begins another loop.
        if (this.#picture.status.kind === 'refused') return
        failures = this.#picture.status.kind === 'away' ? failures + 1 : 0
        await this.#rest(beganMs, failures, signal)
      }
    } finally {
      this.leave()
    }
  }

  /** Lets the page look again soon. */
  poke(): void {
    this.#poked.resolve()
  }

  /** Gives up the stream of events: a browser has few connections to a host, and a hidden page needs none. */
  leave(): void {
    this.#unfollow?.()
    this.#unfollow = undefined
    this.#isFollowed = undefined
  }

  async #refresh(signal: AbortSignal): Promise<void> {
    // What happens from now on is not in what is read.
    this.#poked = Promise.withResolvers()
    try {
      const [inventory, capacity] = await Promise.all([this.#read(signal), this.#measure(signal)])
      this.#follow(inventory)
      this.#update({ ...capacity, inventory, status: this.#currency })
      // A stream that has no answer by the next look is as good as none.
      this.#isFollowed ??= false
    } catch (error) {
      signal.throwIfAborted()
      this.leave()
      this.#update({ status: statusOfFailure(error) })
    }
  }

  /** Reads what changed, or everything if that is not known. */
  async #read(signal: AbortSignal): Promise<Inventory> {
    let { inventory } = this.#picture
    if (inventory === undefined) return this.#daemon.list(signal)
    try {
      for (;;) {
        const changes = await this.#daemon.changes(inventory.revision, signal)
        inventory = withChanges(inventory, changes)
        if (changes.items.length < limits.listItemsMax) return inventory
      }
    } catch (error) {
      if (error instanceof ApiProblem && error.code === 'changes_not_kept') return this.#daemon.list(signal)
      throw error
    }
  }

  /** Reads the capacity if it is time. A host that cannot be inspected has a list all the same. */
  async #measure(signal: AbortSignal): Promise<Partial<Picture>> {
    const nowMs = this.#platform.monotonicMs()
    if (nowMs - this.#syncedMs < limits.hostPageAskEveryMs) return {}
    try {
      const sync = await this.#daemon.sync(signal)
      this.#syncedMs = nowMs
      return { sync, trouble: undefined, aheadMs: Date.parse(sync.host.clock) - this.#platform.epochMs() }
    } catch (error) {
      if (!(error instanceof ApiProblem) || error.status !== 503 || error.code === 'starting_up') throw error
      this.#syncedMs = nowMs
      return { sync: undefined, trouble: error.detail }
    }
  }

  #follow({ revision }: Inventory): void {
    if (this.#unfollow !== undefined || this.#platform.isHidden) return
    this.#unfollow = this.#daemon.follow(revision, {
      onEvent: (sequence) => {
        const { inventory } = this.#picture
        if (inventory === undefined || sequence === 0 || isNews(inventory, sequence)) this.poke()
      },
      onOpen: (isOpen) => {
        this.#isFollowed = isOpen
        const { kind } = this.#picture.status
        // If the stream is lost, the next look shows whether the daemon is.
        if (isOpen && kind !== 'away' && kind !== 'refused') this.#update({ status: this.#currency })
      },
    })
  }

  get #currency(): Status {
    if (this.#isFollowed === undefined) return { kind: 'loading' }
    return { kind: this.#isFollowed ? 'live' : 'asking' }
  }

  /** Waits for an event, for the next regular look, or after a failure for a while. */
  async #rest(beganMs: number, failures: number, signal: AbortSignal): Promise<void> {
    if (failures === 0) await this.#untilPoked(limits.hostPageAskEveryMs, signal)
    else await this.#platform.sleep(delayAfter(failures), signal)
    const leftMs = beganMs + limits.hostPageRefreshMsMin - this.#platform.monotonicMs()
    if (leftMs > 0) await this.#platform.sleep(leftMs, signal)
    if (this.#platform.isHidden) await this.#platform.visible()
  }

  /** Waits for an event, at most this long. */
  async #untilPoked(ms: number, signal: AbortSignal): Promise<void> {
    const poked = new AbortController()
    const slept = this.#platform.sleep(ms, AbortSignal.any([signal, poked.signal])).catch(() => {})
    await Promise.race([slept, this.#poked.promise])
    poked.abort()
    signal.throwIfAborted()
  }

  #update(change: Partial<Picture>): void {
    this.#picture = { ...this.#picture, ...change }
    this.#show(this.#picture)
  }
}

/** Returns the milliseconds to wait after so many failures in a row. */
const delayAfter = (failures: number): number =>
  Math.min(limits.clientReconnectMsMin * 2 ** failures, limits.clientReconnectMsMax)
