import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { isComing } from '../../core/migration/arrival.ts'
import { isHandover } from '../../core/migration/departure.ts'
import { retryDelayMs } from '../../core/retry/retry.ts'
import { errorChain, hindranceOf } from '../../log/error-chain.ts'
import { inLogContext, warnOfFault } from '../../log/log.ts'
import { giveBack } from './give-backs.ts'
import { followPackets, mayHavePackets, takePackets } from './held-packets.ts'
import { pullGuest, pullImages } from './pull-guest.ts'
import { pullRounds, takeOver } from './pull-disk.ts'
import { Pulling } from './pulling.ts'
import { accepted, Hindered, SourceRefused } from './source-refused.ts'
import type { Hindrance, RetryClass } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import type { Arrival, ArrivalRefusal } from '../../core/migration/arrival.ts'
import type { Manifest } from '../../core/vm/manifest.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { ArrivalContext } from './pulling.ts'

/**
 * When a course looks at its record next: never, because it is over; at once; when the record changes; or after a
 * while.
 */
type NextLook =
  | { readonly kind: 'never' | 'now' | 'on_change' }
  | { readonly kind: 'after'; readonly ms: number }

const NOW: NextLook = { kind: 'now' }

/** The course of one VM from its source to this host. Its record says how far it is, so any daemon continues it. */
export class ArrivalCourse {
  readonly #context: ArrivalContext
  readonly #id: VmId
  /** As it was seen last. Its id stays, and the address of its source may change. */
  #arrival: Arrival
  readonly #end = new AbortController()
  /** Aborts when the host becomes drained during a pull. */
  #drain = new AbortController()
  #wake = Promise.withResolvers<void>()
  #running: Promise<void> = Promise.resolve()
  #attempts = 0
  #backsOff = false
  /** The address that the last attempt used. */
  #source: string | undefined
  #leavesDisk = false
  #owesGuest = false

  constructor(context: ArrivalContext, record: VmRecord & { readonly arrival: Arrival }) {
    this.#context = context
    this.#id = record.id
    this.#arrival = record.arrival
  }

  get arrival(): Arrival {
    return this.#arrival
  }

  /** Whether the course is over, and its unfinished disk could not be removed. */
  get leavesDisk(): boolean {
    return this.#leavesDisk
  }

  /** Whether the course is over because the VM was deleted here, and its source has not heard of it. */
  get owesGuest(): boolean {
    return this.#owesGuest
  }

  /** Begins. `onOver` is called when there is nothing left to do for this arrival. */
  begin(onOver: () => void): void {
    // A former daemon may have accepted the deletion of the VM.
    this.notice()
    const fields = { vm_id: this.#id, migration_id: this.#arrival.migrationId }
    this.#running = inLogContext(fields, () => this.#run()).finally(onOver)
  }

  /** Looks at the record again; it has changed. */
  notice(): void {
    const { vms } = this.#context.store
    const record = vms.readable(this.#id)
    if (record === undefined && vms.isUnreadable(this.#id)) return
    const isSame = record?.arrival?.id === this.#arrival.id
    if (isSame) this.#arrival = record.arrival
    if (!isSame || record.deleting) this.#end.abort(new Gone())
    // A back-off does not end by what it shows itself.
    if (!this.#backsOff || this.#end.signal.aborted || record?.arrival?.source !== this.#source)
      this.#wake.resolve()
  }

  /** Looks at the desired state of the host again; it has changed. A pull on a drained host ends, wherever it is. */
  noticeHost(): void {
    if (!this.#isDrained) return
    this.#drain.abort()
    this.#wake.resolve()
  }

  /** Stops in the middle of anything; another daemon continues. */
  async stop(): Promise<void> {
    this.#end.abort(new Stopped())
    this.#wake.resolve()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#end
    while (!signal.aborted) {
      this.#wake = Promise.withResolvers()
      const next = await this.#step().catch((error: unknown): NextLook => {
        // For example, the record cannot be read, or nothing can be written to the state directory.
        this.#context.log.error({ error }, 'VM not taken: internal error')
        return { kind: 'after', ms: limits.retryBackoffMsMax }
      })
      if (next.kind === 'never') break
      if (next.kind === 'on_change') await this.#wait(limits.resyncMs)
      if (next.kind === 'after') await this.#backOff(next.ms)
    }
    await this.#close()
  }

  /** Does what the stage of the record asks for. */
  async #step(): Promise<NextLook> {
    const found = this.#context.store.vms.get(this.#id)
    if (found?.arrival === undefined || !isComing(found.arrival)) return { kind: 'never' }
    this.#source = found.arrival.source
    const pulling = new Pulling(this.#context, found, this.#end.signal)
    try {
      const record = pulling.record()
      if (this.#isDrained) await this.#giveUp(pulling, 'drained')
      else if (record.arrival.stage === 'pulling') await this.#pullInTurn(pulling)
      else if (isHopeless(record)) await this.#giveUp(pulling, 'unfit')
      else if (isReady(record)) await this.#release(pulling, record)
      else return { kind: 'on_change' }
      this.#attempts = 0
      return NOW
    } catch (error) {
      return this.#failed(pulling, error)
    }
  }

  /** Brings the VM when it has a place among the copies. A guest that is down needs none. */
  async #pullInTurn(outer: Pulling): Promise<void> {
    const drain = (this.#drain = new AbortController())
    const pulling = outer.until(drain.signal)
    const { signal, context } = pulling
    // The source must never hear of an attempt that this host could forget.
    await context.store.flushed()
    const pull = (): Promise<void> => this.#pull(pulling)
    // A guest that is down for the handover must not wait behind copies of others, which may take hours: its source
    // would take it back.
    try {
      const { source, expectsGuest } = pulling.arrival()
      await (expectsGuest === true ? pull() : context.places.run([source], pull, signal))
    } catch (error) {
      // The next look gives the guest back.
      if (!drain.signal.aborted) throw error
    }
  }

  /** Brings the disk, then the guest with the rest. */
  async #pull(pulling: Pulling): Promise<void> {
    // No offer lasts longer.
    const manifest = await pulling.within(limits.offerMsMax, 'the copy', (bounded) => copyDisk(bounded))
    // A guest that is down for the handover must not wait for what went wrong before.
    this.#attempts = 0
    await pulling.within(limits.takeOverMsMax, 'the handover', (bounded) => takeGuest(bounded, manifest))
    const { context, id } = pulling
    context.log.info({}, 'arrival complete')
    context.poke(id, 'arrived')
  }

  /** Whether nothing may run here, so that the guest is better off at its source. */
  get #isDrained(): boolean {
    return this.#context.store.maintenance.get().state === 'drained'
  }

  /** Asks for the guest. Until the answer, neither a repetition nor its loss can do harm. */
  async #release(pulling: Pulling, record: Coming): Promise<void> {
    const { source, move, signal, context, id } = pulling
    await context.store.flushed()
    accepted('release', await source.release(move, pulling.arrival().round, signal))
    // From here on this is the only copy. With trouble on record, it could be deleted as that of a source that is lost.
    pulling.noteAnswer()
    if (mayHavePackets(record)) await takePackets(pulling)
    this.#released(pulling)
    context.log.info({}, 'guest released by its source')
    context.poke(id, 'released')
  }

  #released(pulling: Pulling): void {
    const { store, host } = this.#context
    store.transaction(() => {
      const atMs = host.clock.now()
      const { wakes } = pulling.advance({ kind: 'released', atMs })
      if (wakes) store.vms.requestWake(this.#id, { reason: 'arrived', atMs, restores: true })
    })
  }

  /** Gives the guest back to its source. If the source has released it already, it stays here. */
  async #giveUp(pulling: Pulling, because: ArrivalRefusal): Promise<void> {
    const { source, move, signal } = pulling
    const { stage } = pulling.arrival()
    const request = stage === 'pulled' ? 'release' : 'copy'
    const answer = await source.abort(move, signal)
    if (!answer.ok && answer.error === 'released' && stage === 'pulled') return this.#released(pulling)
    accepted(request, answer)
    throw new SourceRefused(request, because)
  }

  /** Acts on what ended an attempt. */
  async #failed(pulling: Pulling, error: unknown): Promise<NextLook> {
    if (pulling.signal.aborted) return NOW
    if (error instanceof SourceRefused) return this.#refused(pulling, error)
    const { retry, next } = this.#noteTrouble(pulling, error)
    if (retry !== 'on-change') return next
    try {
      await this.#giveUp(pulling, 'unfit')
      return NOW
    } catch (answer) {
      return answer instanceof SourceRefused ? this.#refused(pulling, answer) : next
    }
  }

  /** Records that the VM does not come. */
  #refused(pulling: Pulling, { request, because }: SourceRefused): NextLook {
    const { signal, id, context } = pulling
    if (signal.aborted) return NOW
    try {
      pulling.advance({ kind: 'refused', request, because })
    } catch (error) {
      return signal.aborted ? NOW : this.#noteTrouble(pulling, error).next
    }
    context.log.warn({ because }, 'arrival refused')
    context.poke(id, 'refused')
    return NOW
  }

  /**
   * Shows what keeps the VM from coming, and returns when to try again. The trouble may be that nothing can be written.
   */
  #noteTrouble(pulling: Pulling, error: unknown): { readonly retry: RetryClass; readonly next: NextLook } {
    const { store, host, poke, log } = this.#context
    const found = troubleOf(error)
    const { code, message, retry } = found
    if (code === 'bug') log.error({ error }, 'VM not taken: internal error')
    this.#attempts += 1
    const attempt = this.#attempts
    log.warn({ code, attempt, error: message }, 'VM not taken yet')
    const ms = this.#delayMs(retry)
    const nowMs = host.clock.now()
    try {
      const trouble = { ...found, attempt, nextAttemptAtMs: nowMs + ms }
      store.arrivals.set(this.#id, { ...pulling.arrival(), trouble }, nowMs)
      poke(this.#id, 'arrival in trouble')
    } catch (unwritten) {
      warnOfFault(log, unwritten, 'arrival trouble not recorded')
    }
    return { retry, next: { kind: 'after', ms } }
  }

  #delayMs(retry: RetryClass): number {
    const ms = retryDelayMs(retry, this.#attempts, this.#context.host.clock.random())
    return this.#mayBeDown ? Math.min(ms, limits.handoverLookMs) : ms
  }

  /**
   * Whether the guest may be down for the handover. Its source takes it back after `handoverMsMax`, so a source that
   * does not answer for longer is asked as for any other VM.
   */
  get #mayBeDown(): boolean {
    const isEarly = this.#attempts * limits.handoverLookMs <= limits.handoverMsMax
    return this.#arrival.expectsGuest === true && isComing(this.#arrival) && isEarly
  }

  /** Waits until the next try, or until the record names another address of the source. */
  async #backOff(ms: number): Promise<void> {
    this.#backsOff = true
    this.#wake = Promise.withResolvers()
    // The record may have changed during the attempt.
    this.notice()
    await this.#wait(ms)
    this.#backsOff = false
  }

  async #wait(ms: number): Promise<void> {
    const cancel = this.#context.host.clock.after(ms, () => this.#wake.resolve())
    await this.#wake.promise
    cancel()
  }

  /** Ends what is left of the course. */
  async #close(): Promise<void> {
    const { signal } = this.#end
    if (signal.aborted && signal.reason instanceof Stopped) return
    const { store, log } = this.#context
    try {
      const record = store.vms.get(this.#id)
      if (!signal.aborted && record?.arrival?.stage === 'released') await this.#follow(record)
      else if (record?.arrival?.stage !== 'released') await this.#discard()
    } catch (error) {
      // The source has no packets any more: its record was deleted. Or nothing here needs them: the record was deleted,
      // or the daemon stops.
      if (error instanceof SourceRefused || error === signal.reason) return
      log.warn({ error: errorChain(error) }, 'arrival not closed')
    }
  }

  /** Brings the packets that still come to the source, for as long as it holds them. */
  async #follow(record: VmRecord): Promise<void> {
    if (record.desired.network === undefined) return
    const pulling = new Pulling(this.#context, record, this.#end.signal)
    await followPackets(pulling, record.arrival?.releasedAtMs ?? 0, {
      listen: () => (this.#wake = Promise.withResolvers()),
      wait: (ms) => this.#wait(ms),
    })
  }

  /**
   * Keeps nothing here of a VM that does not come. If it was deleted here, its guest continues at its source, without
   * waiting for a deadline there, or for a pool here that does not answer.
   */
  async #discard(): Promise<void> {
    const { host, log } = this.#context
    const [removed, given] = await Promise.allSettled([
      host.incomingDisks.remove(this.#arrival.id),
      this.#end.signal.aborted ? giveBack(this.#context, this.#arrival) : undefined,
    ])
    this.#leavesDisk = removed.status === 'rejected'
    this.#owesGuest = given.status === 'rejected'
    for (const part of [removed, given])
      if (part.status === 'rejected')
        log.warn({ error: errorChain(part.reason) }, 'refused arrival not fully cleaned up')
  }
}

const troubleOf = (error: unknown): Hindrance =>
  error instanceof HostFault || error instanceof Hindered
    ? hindranceOf(error)
    : { code: 'bug', retry: 'on-change', message: errorChain(error) }

class Gone extends Error {
  override readonly name = 'Gone'
}

class Stopped extends Error {
  override readonly name = 'Stopped'
}

/** Copies what may be copied while the guest lives at the source, and returns its manifest of before. */
async function copyDisk(pulling: Pulling): Promise<Manifest> {
  const { source, move, signal } = pulling
  const manifest = accepted('copy', await source.manifest(move.migrationId, signal))
  await pullImages(pulling)
  if (!isHandover(manifest)) await pullRounds(pulling, manifest)
  return manifest
}

/** Has the guest handed over, and brings the rest. */
async function takeGuest(pulling: Pulling, manifest: Manifest): Promise<void> {
  const { source, move, signal, id, context } = pulling
  const { memory } = await takeOver(pulling, manifest)
  const handedOver = {
    manifest: accepted('hand_over', await source.manifest(move.migrationId, signal)),
    console: accepted('hand_over', await source.console(move, signal)),
    memory,
  }
  // A pass for a deletion must not remove what this publishes, before it is published.
  await context.betweenPasses(id, async (ending) => {
    const { wakes } = await pullGuest(pulling.until(ending), handedOver)
    pulling.advance({ kind: 'all_pulled', lastRound: pulling.arrival().round, wakes })
  })
}

type Coming = VmRecord & { readonly arrival: Arrival }

/** Returns whether the guest is loaded here, so that only its release is missing. */
const isReady = ({ observed }: Coming): boolean => observed.waitingFor === 'the release'

/** Returns whether this host cannot load the guest. */
const isHopeless = ({ observed: { fault } }: Coming): boolean =>
  fault !== undefined && fault.step !== 'arrival.pull' && fault.attempt >= limits.loadAttemptsMax
