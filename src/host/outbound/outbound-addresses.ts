import { lookup } from 'node:dns'
import type { LookupAddress } from 'node:dns'
import { isIP } from 'node:net'
import type { LookupFunction, Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { refusedAddress } from '../../core/outbound/outbound-policy.ts'
import type { OutboundPolicy, TakenAddresses } from '../../core/outbound/outbound-policy.ts'
import { OutboundFailure } from './outbound-failure.ts'

/** Resolves a name to all of its addresses, like dns.lookup with `all`. */
export type Resolve = (
  name: string,
  answer: (error: Error | null, addresses: readonly LookupAddress[]) => void,
) => void

export type OutboundAddressesOptions = {
  readonly policy: OutboundPolicy
  /** Whether a VM on this host has the address now. */
  readonly isGuest?: ((address: string) => boolean) | undefined
  /** Returns the addresses that this host has now; absent: those of its interfaces. */
  readonly ownAddresses?: (() => readonly string[]) | undefined
  readonly resolve?: Resolve | undefined
}

/** Decides which addresses may be connected to, at the moment of connecting. */
export class OutboundAddresses {
  readonly #policy: OutboundPolicy
  readonly #isGuest: (address: string) => boolean
  readonly #ownAddresses: () => readonly string[]
  readonly #resolve: Resolve

  constructor({ policy, isGuest, ownAddresses, resolve }: OutboundAddressesOptions) {
    this.#policy = policy
    this.#isGuest = isGuest ?? (() => false)
    this.#ownAddresses = ownAddresses ?? addressesOfInterfaces
    this.#resolve = resolve ?? ((name, answer) => lookup(name, { all: true, order: 'verbatim' }, answer))
  }

  /** Throws OutboundFailure if the URL's host is itself an address that is not allowed. */
  checkLiteral({ hostname }: URL): void {
    const bare = hostname.replace(/^\[(.*)\]$/, '$1')
    if (isIP(bare) !== 0) this.#check(bare, this.#hostNow())
  }

  /**
   * The `lookup` option of net.connect, which passes the result on to connect(2). A name is resolved only once for each
   * connection, so it cannot change to another address after the check.
   */
  readonly lookup: LookupFunction = (name, options, callback) => {
    this.#resolve(name, (error, addresses) => {
      if (error !== null) return callback(error, '')
      let allowed: readonly [LookupAddress, ...LookupAddress[]]
      try {
        allowed = this.#allowedOf(addresses)
      } catch (refusal) {
        // Resolvers answer from the event loop, where an exception would end the daemon.
        return callback(refusal as Error, '')
      }
      if (options.all === true) callback(null, [...allowed])
      else callback(null, allowed[0].address, allowed[0].family)
    })
  }

  /** Throws OutboundFailure if none is allowed, and what reading the addresses of this host or of guests throws. */
  #allowedOf(addresses: readonly LookupAddress[]): readonly [LookupAddress, ...LookupAddress[]] {
    const isHost = this.#hostNow()
    const [first, ...others] = addresses.filter(({ address }) => this.#refusal(address, isHost) === undefined)
    if (first !== undefined) return [first, ...others]
    const { address = '' } = addresses[0] ?? {}
    throw notAllowed(this.#refusal(address, isHost) ?? 'no address')
  }

  /**
   * Ends a connection to a forbidden address before anything is sent. Such a connection was kept since before the
   * address became a guest's, or was made in a way that `lookup` did not check. A connection of this host to itself has
   * the same address at both ends, even if no interface lists it: Linux also answers for local routes, and for
   * interfaces that are down.
   */
  guard(socket: Socket): void {
    const judge = (): void => {
      const { remoteAddress, localAddress } = socket
      // The connection was reset, so there is no peer left to check.
      if (remoteAddress === undefined) return void socket.destroy(broken())
      try {
        this.#check(remoteAddress, () => remoteAddress === localAddress)
      } catch (error) {
        socket.destroy(error as Error)
      }
    }
    if (socket.connecting) socket.once('connect', judge)
    else judge()
  }

  #check(address: string, isHost: TakenAddresses['isHost']): void {
    const refusal = this.#refusal(address, isHost)
    if (refusal !== undefined) throw notAllowed(refusal)
  }

  #refusal(address: string, isHost: TakenAddresses['isHost']): string | undefined {
    return refusedAddress(address, this.#policy, { isGuest: this.#isGuest, isHost })
  }

  /**
   * Returns a check for this host's own addresses. The interfaces are read at most once for all addresses of a name,
   * and only if needed, because a host has many of them.
   */
  #hostNow(): TakenAddresses['isHost'] {
    let own: ReadonlySet<string> | undefined
    return (address) => (own ??= new Set(this.#ownAddresses())).has(address)
  }
}

const notAllowed = (refusal: string): OutboundFailure =>
  new OutboundFailure('not_allowed', `its host is ${refusal}, to which this host may not connect`)

const broken = (): OutboundFailure => new OutboundFailure('unreachable', 'the connection was reset')

const addressesOfInterfaces = (): string[] =>
  Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address))
