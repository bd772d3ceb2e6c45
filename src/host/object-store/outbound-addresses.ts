import { lookup } from 'node:dns'
import type { LookupAddress } from 'node:dns'
import { isIP } from 'node:net'
import type { LookupFunction, Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { refusedAddress } from '../../core/object-store/outbound-policy.ts'
import type { OutboundPolicy, TakenAddresses } from '../../core/object-store/outbound-policy.ts'
import { OutboundFailure } from './outbound-failure.ts'

/** All addresses of a name, as dns.lookup gives them with `all`. */
export type Resolve = (
  name: string,
  answer: (error: Error | null, addresses: readonly LookupAddress[]) => void,
) => void

export type OutboundAddressesOptions = {
  readonly policy: OutboundPolicy
  /** Whether a VM on this host has the address now. */
  readonly isGuest?: ((address: string) => boolean) | undefined
  /** Those that this host has now; of its interfaces where absent. */
  readonly ownAddresses?: (() => readonly string[]) | undefined
  readonly resolve?: Resolve | undefined
}

/** Which addresses may be connected to, judged at the moment of connecting. */
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

  /** Throws OutboundFailure where the host is itself an address that may not be spoken to. */
  checkLiteral({ hostname }: URL): void {
    const bare = hostname.replace(/^\[(.*)\]$/, '$1')
    if (isIP(bare) !== 0) this.#check(bare, this.#hostNow())
  }

  /**
   * For the `lookup` option of net.connect, which hands over to connect(2) what this answers: a name is resolved once for
   * each connection, and nobody can make it mean another address after it was judged.
   */
  readonly lookup: LookupFunction = (name, options, callback) => {
    this.#resolve(name, (error, addresses) => {
      if (error !== null) return callback(error, '')
      const isHost = this.#hostNow()
      const allowed = addresses.filter(({ address }) => this.#refusal(address, isHost) === undefined)
      const [first] = allowed
      if (first === undefined) {
        const { address = '' } = addresses[0] ?? {}
        return callback(notAllowed(this.#refusal(address, isHost) ?? 'no address'), '')
      }
      if (options.all === true) callback(null, allowed)
      else callback(null, first.address, first.family)
    })
  }

  /**
   * Ends a connection to where nobody may speak to, before anything is sent: one that was kept since the address became a
   * guest's, or one that was made otherwise than we know of. One of this host to itself has the same address at both ends,
   * also where no interface lists it: Linux answers for local routes, and for interfaces that are down.
   */
  guard(socket: Socket): void {
    const judge = (): void => {
      const { remoteAddress, localAddress } = socket
      // Reset since it was made: there is nobody to judge any more.
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

  /** The interfaces are asked once for all addresses of a name, and only where it comes to that: a host has many of them. */
  #hostNow(): TakenAddresses['isHost'] {
    let own: ReadonlySet<string> | undefined
    return (address) => (own ??= new Set(this.#ownAddresses())).has(address)
  }
}

const notAllowed = (refusal: string): OutboundFailure =>
  new OutboundFailure('not_allowed', `its host is ${refusal}, where this host may not speak to`)

const broken = (): OutboundFailure => new OutboundFailure('unreachable', 'the connection was reset')

const addressesOfInterfaces = (): string[] =>
  Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address))
