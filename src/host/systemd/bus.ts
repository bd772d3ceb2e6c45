/**
 * Wraps the D-Bus library: a single connection to systemd, from its opening to its loss. No other file uses the
 * library.
 *
 * systemd's own socket, /run/systemd/private, is tried first. It has the same interface, but a call takes half the time
 * (0.16 ms against 0.3 ms). Above all it works while dbus-daemon restarts or is broken. systemd(1) does not offer that
 * socket to others, so the system bus is the second choice, for a host that does not let us in.
 */
import * as dbus from '@jellybrick/dbus-next'
import { limits } from '../../config/limits.ts'
import { MANAGER, MANAGER_PATH, PROPERTIES, SYSTEMD } from './bus-names.ts'
import { earlySignal, takeEarly } from './early-signals.ts'
import type { Socket } from 'node:net'
import type { BusSignal } from './early-signals.ts'

/** `direct`: systemd itself is at the other end, without a bus in between. */
export type BusAddress = { readonly path: string; readonly direct: boolean }

export const PRIVATE_SOCKET: BusAddress = { path: '/run/systemd/private', direct: true }
export const SYSTEM_BUS: BusAddress = { path: '/run/dbus/system_bus_socket', direct: false }

/**
 * A call of a systemd method. Body values follow their signature: 64-bit integers are bigint, variants are made by
 * {@link variant}.
 */
export type BusCall = {
  readonly path: string
  readonly interface: string
  readonly member: string
  readonly signature?: string
  readonly body?: readonly unknown[]
}

/**
 * Thrown when systemd answers with an error. `errorName` is its D-Bus name, e.g. `org.freedesktop.systemd1.NoSuchUnit`.
 */
export class BusError extends Error {
  override readonly name = 'BusError'
  readonly errorName: string

  constructor(errorName: string, message: string) {
    super(message)
    this.errorName = errorName
  }
}

/** Returns whether systemd has answered with this error. */
export const isBusError = (error: unknown, errorName: string): boolean =>
  error instanceof BusError && error.errorName === errorName

export const variant = (signature: string, value: unknown): unknown => new dbus.Variant(signature, value)

/** Returns the value inside a variant. */
export const valueOf = (received: unknown): unknown =>
  received instanceof dbus.Variant ? received.value : received

export type Bus = {
  /** Rejects with {@link BusError} if the answer is an error, and with any other error if no answer comes. */
  call(call: BusCall): Promise<readonly unknown[]>
  close(): void
}

type BusEvents = {
  readonly onSignal: (signal: BusSignal) => void
  /** Called once, when an open connection is lost. Calls under way were rejected with the same error. */
  onLost(error: Error): void
}

/** Connects, and subscribes to the signals of systemd's units and jobs. */
export async function openBus(address: BusAddress, events: BusEvents): Promise<Bus> {
  let open = false
  const pending = new Set<(error: Error) => void>()
  const bus = dbus.sessionBus({ busAddress: `unix:path=${address.path}`, authMethods: ['EXTERNAL'] })

  let lost = false
  const lose = (error: Error): void => {
    if (lost) return
    lost = true
    for (const reject of pending) reject(error)
    pending.clear()
    bus.disconnect()
    if (open) events.onLost(error)
  }
  const owner = new Owner()
  bus.on('message', (message) => {
    if (message.type !== dbus.MessageType.SIGNAL) return
    if (address.direct || owner.sent(message)) events.onSignal(message)
    else if (owner.leaves(message)) lose(new Error(`systemd has left its connection to ${address.path}`))
  })
  onEvent(bus, 'error', (error) => {
    // The library greets a bus (Hello). Without a bus in between, the greeting is refused, which does no harm.
    if (!(error instanceof dbus.DBusError)) lose(error)
  })
  const connection = connectionOf(bus)
  onEvent(connection, 'end', () => lose(new Error(`${address.path} was closed by the other end`)))
  if (address.direct) onEvent(connection, 'connect', () => takeSignals(connection, events))

  const call = (destination: string, request: BusCall): Promise<readonly unknown[]> => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly unknown[]>()
    if (lost) reject(new Error(`the connection to ${address.path} is lost`))
    else {
      pending.add(reject)
      const { body = [], ...head } = request
      joinWrites(connection)
      bus
        .call(new dbus.Message({ destination, ...head, body: [...body] }))
        .then((reply) => resolve(reply?.body ?? []))
        .catch((error: unknown) => reject(asBusError(error)))
        .finally(() => pending.delete(reject))
    }
    return promise
  }

  const unanswered = new Error(`there is no answer from ${address.path}`)
  const deadline = setTimeout(() => lose(unanswered), limits.busOpenMs)
  try {
    if (!address.direct) {
      for (const rule of MATCH_RULES) await call(BUS, ofBus('AddMatch', rule))
      await owner.find(async () => (await call(BUS, ofBus('GetNameOwner', SYSTEMD)))[0])
    }
    await call(SYSTEMD, { path: MANAGER_PATH, interface: MANAGER, member: 'Subscribe' })
    open = true
  } catch (error) {
    lose(error instanceof Error ? error : new Error(String(error)))
    throw error
  } finally {
    clearTimeout(deadline)
  }
  return {
    call: (request) => call(SYSTEMD, request),
    close: () => {
      open = false
      lose(new Error('the connection to systemd was closed'))
    },
  }
}

/** The name of the bus itself (D-Bus specification, "Message Bus Specification"). No client can have it. */
const BUS = 'org.freedesktop.DBus'
const OWNER_CHANGED = 'NameOwnerChanged'

/** A bus forwards only the signals that were subscribed to. systemd's own socket carries all signals of systemd. */
const MATCH_RULES = [
  `type='signal',sender='${BUS}',interface='${BUS}',member='${OWNER_CHANGED}',arg0='${SYSTEMD}'`,
  `type='signal',sender='${SYSTEMD}',interface='${MANAGER}'`,
  `type='signal',sender='${SYSTEMD}',interface='${PROPERTIES}',path_namespace='${MANAGER_PATH}/unit'`,
]

/**
 * Knows which connection to a bus is systemd's. Any process of the host may send us a signal over a bus, and the bus
 * itself writes the sender into it.
 */
class Owner {
  /** The unique name of the connection, once known. */
  #name: unknown
  /** How often systemd's name was reported to have moved to another connection, or to none. */
  #moves = 0

  sent({ sender }: dbus.Message): boolean {
    return sender === this.#name
  }

  /** Returns whether a signal reports that systemd has left the connection that is known. */
  leaves({ sender, member, body }: dbus.Message): boolean {
    if (sender !== BUS || member !== OWNER_CHANGED || body[0] !== SYSTEMD) return false
    this.#moves += 1
    return this.#name !== undefined
  }

  async find(ask: () => Promise<unknown>): Promise<void> {
    let found: unknown
    let before: number
    // A move that is reported right behind the answer is seen before it.
    do {
      before = this.#moves
      found = await ask()
    } while (before !== this.#moves)
    this.#name = found
  }
}

const ofBus = (member: string, argument: string): BusCall => ({
  path: '/org/freedesktop/DBus',
  interface: BUS,
  member,
  signature: 's',
  body: [argument],
})

const asBusError = (error: unknown): Error => {
  if (error instanceof dbus.DBusError) return new BusError(error.type, error.text)
  return error instanceof Error ? error : new Error(String(error))
}

/**
 * Returns the library's connection. The library reports errors on the bus object, but an orderly end only on its
 * connection. Its types declare neither.
 */
const connectionOf = (bus: object): Connection => Reflect.get(bus, '_connection') as Connection

type Connection = { readonly stream?: Socket }

/** Takes signals out of a connection to systemd itself before the library decodes them. */
function takeSignals({ stream }: Connection, { onSignal }: BusEvents): void {
  if (stream === undefined) return
  takeEarly(stream, (head, rest) => {
    const signal = earlySignal(head, rest)
    if (typeof signal === 'object') onSignal(signal)
    return signal !== undefined
  })
}

/** Holds what is written from now on until the end of this turn, so that many calls become one write(2). */
function joinWrites({ stream }: Connection): void {
  if (stream === undefined || stream.writableCorked > 0) return
  stream.cork()
  process.nextTick(() => stream.uncork())
}

const onEvent = (
  emitter: object,
  event: 'connect' | 'error' | 'end',
  listener: (error: Error) => void,
): void => {
  ;(emitter as NodeJS.EventEmitter).on(event, listener)
}
