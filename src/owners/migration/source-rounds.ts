import { limits } from '../../config/limits.ts'
import { isUndecided } from '../../core/migration/departure.ts'
import { HostFault } from '../../core/errors.ts'
import { Turns } from '../../lib/semaphore.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { VmId } from '../../core/ids.ts'
import type { Round, RoundRef } from '../../ports/disk-rounds.ts'
import type { SourceContext } from './context.ts'

/**
 * Takes rounds of the disks that leave this host, one at a time for each VM, and removes them when they are not needed.
 */
export class SourceRounds {
  readonly #context: SourceContext
  readonly #turns = new Turns<VmId>()
  /** VMs that may have rounds in the pool. */
  readonly #mayHave = new Set<VmId>()
  readonly #ending = new AbortController()
  readonly #removals = new Set<Promise<void>>()
  #cancelRetry = (): void => {}

  constructor(context: SourceContext) {
    this.#context = context
  }

  /** Removes what an earlier daemon left. */
  start(): void {
    this.#run(async () => {
      for (const id of await this.#context.host.rounds.list()) {
        this.#mayHave.add(id)
        this.notice(id)
      }
    })
  }

  /** Runs a task of a VM when no other one touches its rounds. */
  inTurn<T>(id: VmId, task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#turns.run(id, task, signal)
  }

  /** Takes a round, or returns it again. Call it in turn. */
  ensure(round: RoundRef, signal: AbortSignal): Promise<Round> {
    this.#mayHave.add(round.id)
    return this.#context.host.rounds.ensureRound(round, signal)
  }

  /**
   * Takes the round of a disk that is at rest. `newest`: the newest round that the destination asked for; 0 if there is
   * none. Call it in turn.
   */
  async ensureLast(
    { id, arrival, newest }: Pick<RoundRef, 'id' | 'arrival'> & { readonly newest: number },
    signal: AbortSignal,
  ): Promise<Round> {
    const last = { id, arrival, number: newest + 1 }
    if (newest === 0) {
      await this.clear(id)
      return this.ensure(last, signal)
    }
    try {
      return await this.ensure(last, signal)
    } catch (error) {
      if (!(error instanceof HostFault) || error.code !== 'round_lost') throw error
      // The daemon died before it took the round that is on record.
      await this.ensure({ id, arrival, number: newest }, signal)
      return this.ensure(last, signal)
    }
  }

  /**
   * Removes all rounds of a VM. Before the first round of an arrival, those of an earlier one with the same name may be
   * left, and would be sent in place of the present disk. Call it in turn.
   */
  async clear(id: VmId): Promise<void> {
    this.#mayHave.add(id)
    await this.#context.host.rounds.remove(id)
  }

  /** Removes the rounds of a VM whose migration is decided. */
  notice(id: VmId): void {
    if (!this.#mayHave.has(id) || this.#isNeeded(id)) return
    this.#run(() =>
      this.#turns.run(
        id,
        async () => {
          if (!this.#mayHave.has(id) || this.#isNeeded(id)) return
          await this.#context.host.rounds.remove(id)
          this.#mayHave.delete(id)
        },
        this.#ending.signal,
      ),
    )
  }

  /** Resolves when nothing runs any more. */
  async stop(): Promise<void> {
    this.#ending.abort()
    this.#cancelRetry()
    await Promise.all(this.#removals)
  }

  #isNeeded(id: VmId): boolean {
    const { vms } = this.#context.store
    const record = vms.readable(id)
    // A record that cannot be read may have a migration that is not decided.
    if (record === undefined) return vms.isUnreadable(id)
    return record.departure !== undefined && isUndecided(record.departure)
  }

  #run(task: () => Promise<void>): void {
    const { log, clock } = this.#context
    const removal = task().catch((error: unknown) => {
      if (this.#ending.signal.aborted) return
      log.warn({ error: errorChain(error) }, 'removal of rounds failed')
      this.#cancelRetry()
      this.#cancelRetry = clock.after(limits.roundsRetryMs, () => this.start())
    })
    this.#removals.add(removal)
    void removal.then(() => this.#removals.delete(removal))
  }
}
