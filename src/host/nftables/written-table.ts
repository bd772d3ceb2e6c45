import { sameGuestRule } from '../../core/network/guest-rule.ts'
import { inboundChains } from '../../core/network/inbound-chains.ts'
import { DROP_SETS } from '../../core/network/ruleset.ts'
import { deviceKey, ELEMENT_SETS, elementText, guestElements } from './guest-elements.ts'
import { chainIdentity, chainKey, readIdentity, sameIdentity } from './table-identity.ts'
import type { GuestRule } from '../../core/network/guest-rule.ts'
import type { Drops, DropSet } from '../../core/network/ruleset.ts'
import type { RulesetChange } from '../../core/network/ruleset-change.ts'
import type { FirewallState } from '../../core/plan/world.ts'
import type { DeviceName } from '../../core/vm/ids.ts'
import type { NftNetlink } from './nft-netlink.ts'
import type { Identity } from './table-identity.ts'

export type Guests = ReadonlyMap<DeviceName, GuestRule>

/** The identity of no table. */
const UNKNOWN: Identity = new Map()

/**
 * The table as our last transaction left it, and whether it is so still.
 *
 * nftables counts the transactions on its tables. As long as that generation is the one our last transaction made, the
 * table is as we wrote it, at the price of one small system call. Otherwise the table is read and compared: what stands of
 * the guests in sets with what we know, all else by its identity, learned right after we wrote it.
 *
 * Methods throw ErrnoError.
 */
export class WrittenTable {
  readonly #netlink: NftNetlink
  #guests: Guests = new Map()
  /** The generation that our last transaction made, or the last that a comparison vouched for. */
  #generation: number | undefined
  #identity = UNKNOWN

  constructor(netlink: NftNetlink) {
    this.#netlink = netlink
  }

  /** The rule that our last transaction left in force. */
  rule(device: DeviceName): GuestRule | undefined {
    return this.#guests.get(device)
  }

  isUntouched(): boolean {
    return this.#generation !== undefined && this.#netlink.generation() === this.#generation
  }

  /** Takes milliseconds where it has to look, and lets others run in between. */
  async state(): Promise<FirewallState['kind']> {
    if (this.isUntouched()) return 'intact'
    const generation = this.#netlink.generation()
    const identity = await readIdentity(this.#netlink)
    if (identity === undefined) return 'absent'
    if (!sameIdentity(identity, this.#identity)) return 'altered'
    const found = new Set(
      ELEMENT_SETS.flatMap((set) => this.#netlink.elements(set).map((element) => elementText(set, element))),
    )
    if (found.symmetricDifference(guestElements(this.#guests.values())).size > 0) return 'altered'
    if (this.#netlink.generation() === generation) this.#generation = generation
    return 'intact'
  }

  /** What makes of the guests in force those that are wanted. */
  changeTo(wanted: Guests): RulesetChange {
    const missing = (from: Guests, to: Guests): readonly GuestRule[] =>
      [...from.values()].filter((rule) => {
        const other = to.get(rule.device)
        return other === undefined || !sameGuestRule(rule, other)
      })
    return { gone: missing(this.#guests, wanted), come: missing(wanted, this.#guests) }
  }

  /** Takes note of a transaction that wrote the whole table, and of the generation before it. */
  async record(guests: Guests, before: number): Promise<void> {
    await this.#take(guests, before, async () => (await readIdentity(this.#netlink)) ?? UNKNOWN)
  }

  /** Takes note of a transaction that changed the table which {@link state} found intact. */
  async recordChange(guests: Guests, change: RulesetChange): Promise<void> {
    await this.#take(guests, this.#generation ?? 0, () => this.#learnChange(change))
  }

  /** If somebody else's transaction came between, what is there now is not known to be ours. */
  async #take(guests: Guests, before: number, learn: () => Promise<Identity> | Identity): Promise<void> {
    this.#guests = guests
    this.#generation = (before + 1) >>> 0
    try {
      const learned = await learn()
      this.#identity = this.isUntouched() ? learned : UNKNOWN
    } catch {
      // The change is in force all the same. The next comparison finds the table altered, and it is written again.
      this.#identity = UNKNOWN
    }
  }

  /** What has been counted in the table that is there now, whoever wrote it. */
  drops(): Drops {
    const counts = (set: DropSet) =>
      new Map(
        this.#netlink.elements(set).flatMap(({ key, count }) => {
          return count === undefined ? [] : [[deviceOfKey(key), count] as const]
        }),
      )
    return { spoofed_drops: counts('spoofed_drops'), inbound_drops: counts('inbound_drops') }
  }

  /** Packets counted for a device. */
  dropped(device: DeviceName): Readonly<Record<DropSet, number>> {
    const [spoofed = 0, inbound = 0] = DROP_SETS.map(
      (set) => this.#netlink.element(set, deviceKey(device))?.count?.packets,
    )
    return { spoofed_drops: spoofed, inbound_drops: inbound }
  }

  #learnChange({ gone, come }: RulesetChange): Identity {
    const identity = new Map(this.#identity)
    const chains = (guests: readonly GuestRule[]): readonly string[] =>
      guests.flatMap(inboundChains).map(({ name }) => name)
    for (const name of chains(gone)) identity.delete(chainKey(name))
    for (const name of chains(come)) {
      identity.set(...chainIdentity(this.#netlink.chain(name), this.#netlink.rules(name)))
    }
    return identity
  }
}

const deviceOfKey = (key: string): string => Buffer.from(key, 'hex').toString().replace(/\0+$/, '')
