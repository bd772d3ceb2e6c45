import { judgeHostKey } from '../../core/console/guest-ssh.ts'
import { ViewerPlaces } from '../../core/console/console-viewer.ts'
import { guestAddress } from '../../core/desired.ts'
import { isSleepingOrWaking } from '../../core/vm/at-rest.ts'
import { nodeAfter } from '../../core/vm/leaving.ts'
import { err, ok } from '../../lib/result.ts'
import { awaken } from './awaken.ts'
import { SshSession } from './ssh-session.ts'
import type { SshFailure } from '../../core/console/guest-ssh.ts'
import type { ViewerOf, WindowSize } from '../../core/console/console-viewer.ts'
import type { VmId } from '../../core/ids.ts'
import type { ObservedState, VmRecord } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { Log } from '../../log/log.ts'
import type { Clock } from '../../ports/clock.ts'
import type { GuestShell, GuestShells } from '../../ports/guest-shells.ts'
import type { Store } from '../../store/store.ts'
import type { SessionEnd } from './ssh-session.ts'

export type SshSessionsOptions = {
  readonly shells: GuestShells
  readonly store: Pick<Store, 'vms' | 'sshHostKeys' | 'flushed' | 'onVmChange'>
  readonly clock: Pick<Clock, 'now' | 'after'>
  /** Requests a sleeping guest. Returns at once; the record shows the result. */
  readonly wake: (id: VmId) => void
  readonly log: Log
}

export type SessionRequest = {
  readonly record: VmRecord
  readonly user: string
  readonly window: WindowSize
  readonly of: ViewerOf
  /** Fingerprint of the only acceptable host key, whatever was pinned. */
  readonly acceptHostKey?: string
  /** Called for each key that this request pins for all who come after it, even if it gets no session. */
  readonly onPinned?: (pin: HostKeyPin) => void
}

export type HostKeyPin = {
  /** Fingerprint. */
  readonly hostKey: string
  /** The one that was pinned before; absent if none was. */
  readonly formerHostKey?: string
}

/** The reason why there is no session. */
export type SessionRefusal =
  | { readonly kind: 'vm_not_running'; readonly state: ObservedState }
  | { readonly kind: 'no_address' }
  | { readonly kind: 'full'; readonly taken: number }
  | { readonly kind: 'host_key_changed'; readonly offered: string; readonly pinned: string | undefined }
  | { readonly kind: 'daemon_stops' }
  | SshFailure

/** States in which a guest may answer; a sleeping guest is woken first. */
const ANSWERING: readonly ObservedState[] = ['running', 'sleeping', 'waking']

/** The time of a guest from its boot to its stop. It continues over a sleep, in another process. */
type Run = {
  readonly id: VmId
  readonly createdAtMs: number
  /** Undefined while the next start that is seen still belongs to the same run. */
  startedAtMs: number | undefined
}

const runOf = (record: VmRecord): Run => {
  const { id, createdAtMs, observed } = record
  return {
    id,
    createdAtMs,
    startedAtMs: isSleepingOrWaking(observed.state) ? undefined : observed.startedAtMs,
  }
}

/**
 * Opens shells in guests. Each one belongs to one viewer, and ends with it, with its VM or its move,
 * or with the daemon.
 */
export class SshSessions {
  readonly #options: SshSessionsOptions
  readonly #places = new ViewerPlaces()
  readonly #live = new Map<SshSession, Run>()
  readonly #ending = new AbortController()
  readonly #stopWatching: () => void

  constructor(options: SshSessionsOptions) {
    this.#options = options
    this.#stopWatching = options.store.onVmChange((id) => this.#endOfOver(id))
  }

  /** Returns the number of sessions of this VM, including those that are about to begin. */
  taken(id: VmId): number {
    return this.#places.taken(id)
  }

  /** Opens a session. Rejects with the signal's reason on abort, and with the store's error if it cannot flush. */
  async open(request: SessionRequest, signal: AbortSignal): Promise<Result<SshSession, SessionRefusal>> {
    const { record } = request
    if (this.#ending.signal.aborted) return err({ kind: 'daemon_stops' })
    const { state } = record.observed
    if (record.deleting || !ANSWERING.includes(state)) return err({ kind: 'vm_not_running', state })
    const address = guestAddress(record.desired.network)
    if (address === undefined) return err({ kind: 'no_address' })
    const release = this.#places.take(record.id, request.of)
    if (release === undefined) return err({ kind: 'full', taken: this.taken(record.id) })
    try {
      const until = AbortSignal.any([signal, this.#ending.signal])
      const connected = await this.#wakeAndConnect(request, address, until)
      if (!connected.ok) {
        release()
        this.#logRefusal(request, connected.error)
        return connected
      }
      const { record: awake, shell } = connected.value
      return ok(this.#begin({ ...request, record: awake }, shell, release))
    } catch (error) {
      release()
      if (this.#ending.signal.aborted && !signal.aborted) return err({ kind: 'daemon_stops' })
      throw error
    }
  }

  /** Ends all sessions, and refuses new ones. */
  end(): void {
    this.#ending.abort(new Error('the daemon stops'))
    this.#stopWatching()
    for (const session of this.#live.keys()) session.end({ kind: 'daemon_stops' })
  }

  /** Opens a shell in the guest, which is woken first. Returns the shell, and the record of the awake VM. */
  async #wakeAndConnect(
    request: SessionRequest,
    address: string,
    signal: AbortSignal,
  ): Promise<Result<{ readonly record: VmRecord; readonly shell: GuestShell }, SessionRefusal>> {
    const awake = await awaken(this.#options, request.record, signal)
    if (!awake.ok) return awake
    const record = awake.value
    const shell = await this.#connect({ ...request, record }, address, signal)
    return shell.ok ? ok({ record, shell: shell.value }) : shell
  }

  async #connect(
    request: SessionRequest,
    address: string,
    signal: AbortSignal,
  ): Promise<Result<GuestShell, SessionRefusal>> {
    const { shells, store } = this.#options
    const { record, user, window, acceptHostKey: accepted } = request
    const pinned = store.sshHostKeys.get(record.id)
    let offered = ''
    const opened = await shells.open(
      {
        address,
        user,
        window,
        acceptHostKey: (fingerprint) => {
          offered = fingerprint
          return judgeHostKey({ offered, pinned, accepted }) !== 'changed'
        },
      },
      signal,
    )
    if (!opened.ok) {
      const { error } = opened
      return err(error.kind === 'host_key_refused' ? { kind: 'host_key_changed', offered, pinned } : error)
    }
    const shell = opened.value
    try {
      const refusal = await this.#settleHostKey(request, offered)
      signal.throwIfAborted()
      if (refusal === undefined) return ok(shell)
      shell.close()
      return err(refusal)
    } catch (error) {
      shell.close()
      throw error
    }
  }

  /**
   * Pins the key that the guest has proven to have. The pin is on the disk before the viewer sees a byte of the shell.
   * The pinned key is read again: another viewer may have been faster, or the VM was deleted and created again with its
   * id.
   */
  async #settleHostKey(request: SessionRequest, offered: string): Promise<SessionRefusal | undefined> {
    const { store, clock, log } = this.#options
    const { record, acceptHostKey: accepted, onPinned } = request
    const { id } = record
    const now = store.vms.get(id)
    if (now === undefined || endOf(runOf(record), now) !== undefined)
      return { kind: 'vm_not_running', state: now?.observed.state ?? 'deleting' }
    const pinned = store.sshHostKeys.get(id)
    const judgement = judgeHostKey({ offered, pinned, accepted })
    if (judgement === 'changed') return { kind: 'host_key_changed', offered, pinned }
    if (judgement === 'known') return undefined
    store.sshHostKeys.pin(id, offered, clock.now())
    onPinned?.(pinned === undefined ? { hostKey: offered } : { hostKey: offered, formerHostKey: pinned })
    await store.flushed()
    log.info({ vm_id: id, host_key: offered, former_host_key: pinned }, 'SSH host key pinned')
    return undefined
  }

  #begin({ record, user }: SessionRequest, shell: GuestShell, release: () => void): SshSession {
    const log = this.#options.log.child({ vm_id: record.id, user })
    const session = new SshSession(shell, (end) => {
      release()
      this.#live.delete(session)
      log.info({ end: end ?? { kind: 'viewer_left' } }, 'shell in a guest ended')
    })
    this.#live.set(session, runOf(record))
    log.info({}, 'shell in a guest opened')
    // The run may have ended while the pin was written to the disk.
    this.#endOfOver(record.id)
    return session
  }

  #logRefusal({ record, user }: SessionRequest, refusal: SessionRefusal): void {
    const { log } = this.#options
    const fields = { vm_id: record.id, user, refusal }
    if (refusal.kind === 'host_key_changed') log.warn(fields, 'SSH host key changed')
    else log.info(fields, 'could not open a shell in the guest')
  }

  /** Ends sessions whose run has ended. A guest that stops does not report it over SSH. */
  #endOfOver(id: VmId): void {
    const here = [...this.#live].filter(([, run]) => run.id === id)
    if (here.length === 0) return
    const now = this.#options.store.vms.get(id)
    for (const [session, run] of here) {
      const end = endOf(run, now)
      if (end !== undefined) session.end(end)
      else if (now !== undefined) follow(run, now)
    }
  }
}

/** Returns how a run has ended; undefined while it continues. Another start is another run. */
function endOf({ createdAtMs, startedAtMs }: Run, now: VmRecord | undefined): SessionEnd | undefined {
  if (now === undefined || now.createdAtMs !== createdAtMs) return { kind: 'vm_deleted' }
  // Its connection has the gateway's address, which is another host's device where the guest is now.
  const node = nodeAfter(now)
  if (node !== undefined) return { kind: 'vm_moved', node }
  const { state, startedAtMs: after } = now.observed
  if (state === 'stopped') return { kind: 'vm_stopped' }
  if (isSleepingOrWaking(now.observed.state) || startedAtMs === undefined || after === undefined)
    return undefined
  return startedAtMs === after ? undefined : { kind: 'vm_stopped' }
}

/** Updates a run that continues. A start after a sleep still belongs to the same run. */
function follow(run: Run, now: VmRecord): void {
  if (isSleepingOrWaking(now.observed.state)) run.startedAtMs = undefined
  else run.startedAtMs ??= now.observed.startedAtMs
}
