import { limits } from '../../src/config/limits.ts'
import { err, ok } from '../../src/lib/result.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { WindowSize } from '../../src/core/console/console-viewer.ts'
import type { SshFailure } from '../../src/core/console/guest-ssh.ts'
import type {
  GuestShell,
  GuestShells,
  HostKeyFingerprint,
  ShellEnd,
  ShellOutcome,
  ShellRequest,
} from '../../src/ports/guest-shells.ts'

/** A guest that SSH can reach, by its address. */
export type FakeGuest = {
  hostKey: HostKeyFingerprint
  /** Users who may log in with the daemon's key. */
  users: readonly string[]
  /** Fault of each connection, if set. */
  failing?: SshFailure['kind']
  /** Shells that were opened, in order. */
  readonly shells: FakeShell[]
}

/** Bytes that a guest may send before a paused reader stops it. */
const WINDOW_BYTES = 2 * 1024 * 1024

/** Guests with SSH, in memory. */
export class FakeGuestShells implements GuestShells {
  readonly #guests = new Map<string, FakeGuest>()
  readonly #switch = new FaultSwitch<'open'>()

  /** Returns the guest at an address, and creates it at the first call. */
  guest(address: string): FakeGuest {
    let guest = this.#guests.get(address)
    if (guest === undefined) {
      guest = { hostKey: fakeHostKey(this.#guests.size + 1), users: ['root'], shells: [] }
      this.#guests.set(address, guest)
    }
    return guest
  }

  /** Lets the next connection wait until it is released or aborted. */
  holdNext(): () => void {
    return this.#switch.holdNext('open')
  }

  async open(request: ShellRequest, signal: AbortSignal): Promise<ShellOutcome> {
    signal.throwIfAborted()
    const outcome = await this.#switch.run('open', () => this.#connect(request), signal)
    if (!signal.aborted) return outcome
    if (outcome.ok) outcome.value.close()
    throw signal.reason
  }

  #connect({ address, user, window, acceptHostKey }: ShellRequest): ShellOutcome {
    const guest = this.#guests.get(address)
    const fail = (kind: SshFailure['kind']): ShellOutcome =>
      err({ kind, detail: `connecting to ${address}: ${kind}` })
    if (guest === undefined) return fail('no_route')
    const { failing } = guest
    if (failing === 'no_route' || failing === 'refused' || failing === 'timed_out') return fail(failing)
    if (!acceptHostKey(guest.hostKey)) return fail('host_key_refused')
    if (failing !== undefined) return fail(failing)
    if (!guest.users.includes(user)) return fail('key_refused')
    const shell = new FakeShell(window)
    guest.shells.push(shell)
    return ok(shell)
  }
}

export const fakeHostKey = (seed: number): HostKeyFingerprint => `SHA256:${String(seed).padStart(43, 'A')}`

/** A shell, with both its ends. */
export class FakeShell implements GuestShell {
  readonly sizes: WindowSize[]
  /** Input that the guest has read. */
  input = Buffer.alloc(0)
  isClosed = false
  #listeners: Parameters<GuestShell['attach']>[0] | undefined
  readonly #roomListeners: (() => void)[] = []
  #isPaused = false
  #isReading = true
  #isFull = false
  #isOver = false
  #waitingInput: Uint8Array[] = []
  #output: Uint8Array[] = []
  #end: ShellEnd | undefined

  constructor(window: WindowSize) {
    this.sizes = [window]
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  attach(listeners: Parameters<GuestShell['attach']>[0]): void {
    this.#listeners = listeners
    queueMicrotask(() => this.#flush())
  }

  write(bytes: Uint8Array): void {
    if (this.#isOver) return
    this.#waitingInput.push(Uint8Array.from(bytes))
    this.#isFull ||= this.inputWaiting >= limits.consoleInputBytesMax
    if (this.#isReading) this.readInput(true)
  }

  get inputWaiting(): number {
    return this.#waitingInput.reduce((sum, { length }) => sum + length, 0)
  }

  onInputRoom(listener: () => void): void {
    this.#roomListeners.push(listener)
  }

  resize(size: WindowSize): void {
    if (!this.#isOver) this.sizes.push(size)
  }

  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
    this.#flush()
  }

  close(): void {
    this.isClosed = true
    this.#isOver = true
  }

  /** The guest writes. */
  say(text: string | Uint8Array): void {
    this.#output.push(Buffer.from(text))
    this.#flush()
  }

  /** Bytes that the guest has written and could not send. */
  get unsent(): number {
    return Math.max(0, this.#output.reduce((sum, { length }) => sum + length, 0) - WINDOW_BYTES)
  }

  /** The guest reads its input, or stops reading. */
  readInput(reading: boolean): void {
    this.#isReading = reading
    if (!reading) return
    this.input = Buffer.concat([this.input, ...this.#waitingInput.splice(0)])
    if (!this.#isFull) return
    this.#isFull = false
    for (const listener of this.#roomListeners) listener()
  }

  /** Ends the shell, or its connection. */
  end(end: ShellEnd): void {
    this.#end ??= end
    this.#flush()
  }

  #flush(): void {
    if (this.#listeners === undefined) return
    while (!this.#isPaused && !this.#isOver && this.#output.length > 0)
      this.#listeners.onOutput(this.#output.shift() as Uint8Array)
    if (this.#isPaused || this.#isOver || this.#end === undefined) return
    this.#isOver = true
    this.isClosed = true
    this.#listeners.onEnd(this.#end)
  }
}
