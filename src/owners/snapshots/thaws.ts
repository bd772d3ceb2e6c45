import { retryDelayMs } from '../../core/retry/retry.ts'
import { isSaved } from '../../core/world/saved-state.ts'
import { inLogContext, warnOfFault } from '../../log/log.ts'
import type { VmId } from '../../core/ids.ts'
import type { SnapshotsContext } from './context.ts'

type Thawing = Pick<SnapshotsContext, 'store' | 'host' | 'log'>

/**
 * `none`: the guest is not on record as frozen, or has ended. `not_yet`: it is paused, or its agent has not confirmed
 * the thaw; ask again later.
 */
export type ThawOutcome = 'thawed' | 'none' | 'not_yet'

/**
 * Thaws a guest that may be frozen, if it runs. Its note is removed only when its agent confirms the thaw, or when the
 * guest has ended. A sleeping guest is saved as it was, so its note stays. The caller must ensure that the guest is
 * neither frozen nor started meanwhile.
 */
export async function thaw(
  { store, host, log }: Thawing,
  id: VmId,
  signal: AbortSignal,
): Promise<ThawOutcome> {
  try {
    const record = store.frozenGuests.has(id) ? store.vms.get(id) : undefined
    if (record === undefined) return 'none'
    const monitor = host.monitors[record.monitor]
    const { kind } = await host.units.inspect(id)
    if (kind === 'absent' || kind === 'failed') {
      // An unusable saved state counts too, because it may be restored one day.
      if (isSaved(await host.savedStates.inspect(id, await monitor.installed()))) return 'not_yet'
      store.frozenGuests.forget(id)
      return 'none'
    }
    if (kind !== 'active' || (await monitor.inspect(id)).kind !== 'running') return 'not_yet'
    if (!(await monitor.agent.thaw(id, signal))) {
      log.warn({}, 'guest thaw not confirmed by an agent; its file systems may be frozen')
      return 'not_yet'
    }
    store.frozenGuests.forget(id)
    return 'thawed'
  } catch (error) {
    warnOfFault(log, error, 'guest thaw failed; tried again later')
    return 'not_yet'
  }
}

/**
 * Thaws guests that an earlier daemon, or a capture, may have left frozen. Each guest on record is thawed once it runs,
 * and again until its agent confirms it.
 */
export class Thaws {
  readonly #context: Thawing & Pick<SnapshotsContext, 'betweenPasses'>
  readonly #underWay = new Map<VmId, Promise<void>>()
  /** Guests that changed while they were being thawed. */
  readonly #changed = new Set<VmId>()
  readonly #attempts = new Map<VmId, number>()
  /** Guests that wait for the next try, each with the function that cancels the wait. */
  readonly #waiting = new Map<VmId, () => void>()
  #stopping = false

  constructor(context: Thawing & Pick<SnapshotsContext, 'betweenPasses'>) {
    this.#context = context
  }

  /** Looks at all guests on record. */
  look(): void {
    for (const id of this.#context.store.frozenGuests.all()) this.notice(id)
  }

  /** Looks at a VM after a change, if its guest may be frozen. */
  notice(id: VmId): void {
    if (this.#underWay.has(id)) this.#changed.add(id)
    else if (!this.#stopping && this.#context.store.frozenGuests.has(id)) this.#begin(id)
  }

  /** Notes that a guest may be frozen and could not be thawed just now. */
  later(id: VmId): void {
    if (this.#stopping) return
    const attempt = (this.#attempts.get(id) ?? 0) + 1
    this.#attempts.set(id, attempt)
    const ms = retryDelayMs('backoff', attempt, 0)
    this.#waiting.get(id)?.()
    this.#waiting.set(
      id,
      this.#context.host.clock.after(ms, () => this.#noticeAgain(id)),
    )
  }

  /** Looks at a VM again, and later if that fails. An error that is not caught here would end the daemon. */
  #noticeAgain(id: VmId): void {
    try {
      this.notice(id)
    } catch (error) {
      this.#context.log.error({ vm_id: id, error }, 'guest not looked at for its thaw; tried again later')
      this.later(id)
    }
  }

  /** Resolves when no thaw is running. The next daemon continues. */
  async stop(): Promise<void> {
    this.#stopping = true
    for (const cancel of this.#waiting.values()) cancel()
    this.#waiting.clear()
    await Promise.all(this.#underWay.values())
  }

  #begin(id: VmId): void {
    this.#waiting.get(id)?.()
    this.#waiting.delete(id)
    this.#underWay.set(
      id,
      inLogContext({ vm_id: id }, () => this.#thaw(id)),
    )
  }

  async #thaw(id: VmId): Promise<void> {
    const { betweenPasses, log } = this.#context
    let outcome: ThawOutcome | undefined
    try {
      // Waits for a capture that is running; the capture thaws the guest itself.
      outcome = await betweenPasses(id, (ending) => thaw(this.#context, id, ending))
      if (outcome === 'thawed') log.info({}, 'guest thawed after a capture')
    } catch (error) {
      log.error({ error }, 'guest thaw failed: internal error')
      outcome = 'not_yet'
    }
    this.#underWay.delete(id)
    const changed = this.#changed.delete(id)
    if (outcome !== 'not_yet') this.#attempts.delete(id)
    else if (changed) this.#noticeAgain(id)
    else this.later(id)
  }
}
