import { isOvertaken, mustEnd } from '../core/vm/record.ts'
import { limits } from '../config/limits.ts'
import { unreachable } from '../lib/assert.ts'
import { Semaphore } from '../lib/semaphore.ts'
import { inLogContext } from '../log/log.ts'
import { endedPass, runPass } from './pass.ts'
import type { VmId } from '../core/ids.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Cause, Next, WorkerContext } from './progress.ts'

export type WorkerOptions = {
  /** Limits the passes over all VMs that run at once. */
  readonly places: Semaphore
  /** Called when the VM is deleted and forgotten. */
  readonly onGone: () => void
}

type Running = { record: VmRecord | undefined; readonly abort: AbortController }

/**
 * The only actor for a VM; it runs one pass at a time. A poke carries no payload and sets a flag. The flag is cleared
 * before desired state is read, so no poke is lost and the newest desired state wins. A hard stop or a deletion aborts
 * the running step. Any change, or a request for the guest, aborts a running save. Every other change waits for the end
 * of the step.
 */
export class Worker {
  readonly #context: WorkerContext
  readonly #id: VmId
  readonly #options: WorkerOptions
  readonly #reasons = new Set<string>()
  #changedAtMs: number | undefined
  #running: Running | undefined
  /** Held by a pass, or by a task that needs the VM to hold still. */
  readonly #turn = new Semaphore(1)
  #still: { readonly record: VmRecord; readonly abort: AbortController } | undefined
  #cancelTimer = (): void => {}
  #stopping = false
  #hasBegun = false
  #actingPasses = 0
  #idle: Promise<void> = Promise.resolve()
  readonly #first = Promise.withResolvers<void>()

  constructor(context: WorkerContext, id: VmId, options: WorkerOptions) {
    this.#context = context
    this.#id = id
    this.#options = options
  }

  /** Asks for a pass. `change` means that desired state or its inputs changed; that overrides a back-off. */
  poke(reason: string, change: boolean): void {
    if (this.#stopping) return
    this.#reasons.add(reason)
    if (change) this.#changedAtMs ??= this.#context.host.clock.monotonicMs()
    if (change && this.#isPreempted()) this.#running?.abort.abort()
    if (change && this.#endsStill()) this.#still?.abort.abort()
    if (this.#running === undefined) this.#idle = inLogContext({ vm_id: this.#id }, () => this.#run())
  }

  /** Asks for the first pass after this time. A pass that something else asked for says itself when the next one is due. */
  firstPassAfter(ms: number): void {
    if (!this.#hasBegun && !this.#stopping) this.#pokeAfter(ms)
  }

  #pokeAfter(ms: number): void {
    this.#cancelTimer()
    this.#cancelTimer = this.#context.host.clock.after(ms, () => this.poke('timer', false))
  }

  /** Does what {@link Reconciler.betweenPasses} describes. */
  async betweenPasses<T>(task: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    return this.#turn.run(async () => {
      const record = this.#context.store.vms.get(this.#id)
      if (this.#stopping || record === undefined) return undefined
      const still = { record, abort: new AbortController() }
      this.#still = still
      try {
        return await task(still.abort.signal)
      } finally {
        this.#still = undefined
      }
    })
  }

  /** Resolves after the first pass, whatever its result. */
  firstPass(): Promise<void> {
    return this.#first.promise
  }

  /** Resolves when no pass is running. */
  idle(): Promise<void> {
    return this.#idle
  }

  /** Ignores later pokes, aborts the running step, and resolves when nothing runs. The guest keeps running. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#cancelTimer()
    this.#running?.abort.abort()
    this.#still?.abort.abort()
    await this.#idle
    await this.#turn.run(async () => {})
    this.#first.resolve()
  }

  async #run(): Promise<void> {
    this.#hasBegun = true
    while (this.#reasons.size > 0 && !this.#stopping) {
      this.#cancelTimer()
      const running: Running = { record: undefined, abort: new AbortController() }
      this.#running = running
      const pass = async (): Promise<void> => {
        const cause = this.#takeCause()
        this.#follow(await this.#pass(cause, running), cause)
        this.#context.saves.passOver(this.#id)
        this.#context.restores.passOver(this.#id)
        this.#first.resolve()
      }
      // A pass that waits for a VM to move again must not occupy a place.
      await this.#turn.run(() => this.#options.places.run(pass))
    }
    this.#running = undefined
  }

  #takeCause(): Cause {
    const cause = {
      reasons: [...this.#reasons],
      actingPasses: this.#actingPasses,
      ...(this.#changedAtMs === undefined ? {} : { changedAtMs: this.#changedAtMs }),
    }
    this.#reasons.clear()
    this.#changedAtMs = undefined
    return cause
  }

  async #pass(cause: Cause, running: Running): Promise<Next> {
    const { store, host, observer } = this.#context
    const beganMs = host.clock.monotonicMs()
    try {
      const record = store.vms.get(this.#id)
      if (record === undefined) return { kind: 'gone' }
      running.record = record
      return await runPass(this.#context, record, cause, running.abort.signal)
    } catch (error) {
      return this.#endedPass(error)
    } finally {
      observer?.passEnded(host.clock.monotonicMs() - beganMs)
    }
  }

  /** Ends a failed pass. This worker continues whatever is wrong with the record. */
  #endedPass(error: unknown): Next {
    try {
      return endedPass(this.#context, this.#id, error)
    } catch (unreadable) {
      this.#context.log.error({ error: unreadable }, 'VM record not readable')
      return { kind: 'after', ms: limits.retryBackoffMsMax }
    }
  }

  #follow(next: Next, cause: Cause): void {
    // Passes that a change overtook say nothing about convergence.
    const overtaken = this.#changedAtMs !== undefined
    this.#actingPasses = next.kind === 'again' && !overtaken ? cause.actingPasses + 1 : 0
    switch (next.kind) {
      case 'again':
        this.#reasons.add('look again')
        this.#changedAtMs ??= cause.changedAtMs
        return
      case 'after':
        this.#pokeAfter(next.ms)
        return
      case 'gone':
        this.#stopping = true
        this.#options.onGone()
        return
      default:
        unreachable(next)
    }
  }

  /**
   * Returns whether the stored record now ends the VM, or wants the guest that is being saved, while the running pass
   * does something else.
   */
  #isPreempted(): boolean {
    const started = this.#running?.record
    if (started === undefined) return false
    const now = this.#context.store.vms.get(this.#id)
    if (now === undefined) return false
    if (this.#context.saves.has(this.#id) && this.#context.hostEnd.policy === undefined)
      return isOvertaken(started, now)
    return endsVm(started, now)
  }

  /** Returns whether the stored record now ends the VM, which it did not when the VM began to hold still. */
  #endsStill(): boolean {
    if (this.#still === undefined) return false
    const now = this.#context.store.vms.get(this.#id)
    return now !== undefined && endsVm(this.#still.record, now)
  }
}

/**
 * Returns whether the VM must end at once since `started`: a stop without grace was accepted, whatever power followed, or a deletion of a VM
 * that was to run.
 */
const endsVm = (started: VmRecord, now: VmRecord): boolean =>
  (now.stops.accepted > started.stops.accepted && now.stops.grace === undefined) ||
  (now.deleting && !mustEnd(started))
