import { assert } from '../../lib/assert.ts'
import { guestChains, sameGuestRule } from '../../core/network/guest-rule.ts'
import {
  addressesOf,
  deviceKey,
  deviceOfKey,
  ELEMENT_SETS,
  elementText,
  guestElements,
  parseAddressKey,
  parsePrefixElement,
} from './guest-elements.ts'
import {
  chainIdentity,
  chainKey,
  readIdentity,
  sameIdentity,
  judgeTable,
  recordTable,
} from './table-record.ts'
import type { GuestDrops } from '../../core/world/counters.ts'
import type { GuestRule, FirewallState } from '../../core/world/network-state.ts'
import type { Drops, DropSet, FirewallPolicy } from '../../core/network/ruleset.ts'
import type { RulesetChange } from '../../core/network/ruleset-change.ts'
import type { DeviceName } from '../../core/ids.ts'
import type { DeviceAddress } from './guest-elements.ts'
import type { NftNetlink } from './nft-netlink.ts'
import type { Identity, FoundTable, TableRecord, TableRecordFile } from './table-record.ts'

export type Guests = ReadonlyMap<DeviceName, GuestRule>

export type WrittenTableOptions = {
  readonly netlink: NftNetlink
  /** The policy that this daemon writes. */
  readonly policy: FirewallPolicy
  readonly file: TableRecordFile
}

/** The identity of a table after our transaction. `unread`: it could not be read then, so no table matches it. */
type LearnedIdentity = Identity | 'unread'

/**
 * Remembers the table as our last transaction left it, and checks whether it is still like that.
 *
 * nftables counts the transactions on its tables. While that generation is the one of our last transaction, the table
 * is as we wrote it; this check costs one small system call. Otherwise the table is read and compared. The sets of
 * guests are compared with what we know, and all else with the identity that was read right after we wrote it. A table
 * that this daemon did not write is compared with the record of the previous daemon.
 *
 * Methods throw ErrnoError.
 */
export class WrittenTable {
  readonly #netlink: NftNetlink
  #guests: Guests = new Map()
  /** The generation of our last transaction, or the last one that a comparison confirmed. */
  #generation: number | undefined
  /** Undefined before our first transaction, unless the table was found as the previous daemon left it. */
  #identity: LearnedIdentity | undefined
  readonly #policy: FirewallPolicy
  readonly #file: TableRecordFile
  #left: TableRecord | undefined

  constructor({ netlink, policy, file }: WrittenTableOptions) {
    this.#netlink = netlink
    this.#policy = policy
    this.#file = file
  }

  /** Returns the rule that our last transaction put in force. */
  rule(device: DeviceName): GuestRule | undefined {
    return this.#guests.get(device)
  }

  /** The generation of nftables in which the table was last as it should be. */
  get generation(): number | undefined {
    return this.#generation
  }

  isUntouched(): boolean {
    return this.#generation !== undefined && this.#netlink.generation() === this.#generation
  }

  /**
   * Returns the state of the table. It takes milliseconds if it must read the table, and other tasks run in between.
   */
  async state(): Promise<FirewallState['kind']> {
    if (this.isUntouched()) return 'intact'
    // Taken at the first check, whatever the result: a record that stays behind would be compared with a later table.
    if (this.#identity === undefined) this.#left ??= this.#file.take()
    const generation = this.#netlink.generation()
    const identity = await readIdentity(this.#netlink)
    if (identity === undefined) return 'absent'
    // There is nothing to compare the elements with, and thousands of them take long to read.
    if (this.#identity === undefined && this.#left === undefined) return 'unverified'
    const elements = new Set(
      ELEMENT_SETS.flatMap((set) => this.#netlink.elements(set).map((element) => elementText(set, element))),
    )
    const kind = this.#judge({ identity, elements })
    if (kind === 'intact' && this.#netlink.generation() === generation) this.#generation = generation
    return kind
  }

  #judge(found: FoundTable): FirewallState['kind'] {
    if (this.#identity === undefined) return this.#judgeFirst(found)
    if (this.#identity === 'unread' || !sameIdentity(found.identity, this.#identity)) return 'altered'
    const expected = guestElements(this.#guests.values())
    return found.elements.symmetricDifference(expected).size > 0 ? 'altered' : 'intact'
  }

  /** Judges a table that this daemon has not written. */
  #judgeFirst(found: FoundTable): FirewallState['kind'] {
    assert(this.#left !== undefined, 'elements are read only to be compared')
    const judged = judgeTable(this.#left, this.#policy, found)
    if (judged !== 'same') return judged === 'altered' ? 'altered' : 'unverified'
    this.#guests = new Map(this.#left.guests.map((rule) => [rule.device, rule]))
    this.#identity = found.identity
    return 'intact'
  }

  /** Leaves a record with which the next daemon can recognise the table, if this daemon itself knows the table. */
  leaveRecord(): void {
    const identity = this.#identity
    if (identity === undefined || identity === 'unread') return
    const guests = [...this.#guests.values()]
    this.#file.leave(recordTable(this.#policy, guests, { identity, elements: guestElements(guests) }))
  }

  /**
   * Returns the addresses and prefixes of guests, both from the rules that this daemon knows to be in force and from
   * the sets of the table.
   */
  addressesInForce(): readonly DeviceAddress[] {
    const shown = (['guest_ipv4', 'guest_ipv6'] as const).flatMap((set) =>
      this.#netlink.elements(set).map(({ key }) => parseAddressKey(key)),
    )
    const prefixes = this.#netlink.elements('prefix').flatMap(parsePrefixElement)
    return [...[...this.#guests.values()].flatMap(addressesOf), ...shown, ...prefixes]
  }

  /** Returns the change from the guests in force to the wanted ones. */
  changeTo(wanted: Guests): RulesetChange {
    const missing = (from: Guests, to: Guests): readonly GuestRule[] =>
      [...from.values()].filter((rule) => {
        const other = to.get(rule.device)
        return other === undefined || !sameGuestRule(rule, other)
      })
    return { gone: missing(this.#guests, wanted), come: missing(wanted, this.#guests) }
  }

  /** Records a transaction that wrote the whole table, and the generation before it. */
  async record(guests: Guests, before: number): Promise<void> {
    await this.#take(guests, before, async () => (await readIdentity(this.#netlink)) ?? 'unread')
  }

  /** Records a transaction that changed the table which {@link state} found intact. */
  async recordChange(guests: Guests, change: RulesetChange): Promise<void> {
    await this.#take(guests, this.#generation ?? 0, () => this.#learnChange(change))
  }

  /** Records the new state. If another program's transaction came in between, the current table may not be ours. */
  async #take(
    guests: Guests,
    before: number,
    learn: () => Promise<LearnedIdentity> | LearnedIdentity,
  ): Promise<void> {
    this.#guests = guests
    this.#generation = (before + 1) >>> 0
    try {
      const learned = await learn()
      this.#identity = this.isUntouched() ? learned : 'unread'
    } catch {
      // The change is in force all the same. The next comparison finds the table altered, and it is written again.
      this.#identity = 'unread'
    }
  }

  /** Returns the counters of the current table, no matter which program wrote it. */
  drops(): Drops {
    const counts = (set: DropSet) =>
      new Map(
        this.#netlink.elements(set).flatMap(({ key, count }) => {
          return count === undefined ? [] : [[deviceOfKey(key), count] as const]
        }),
      )
    return { spoofed_drops: counts('spoofed_drops'), inbound_drops: counts('inbound_drops') }
  }

  /** Returns the packets counted for a device. */
  dropped(device: DeviceName): GuestDrops {
    const packets = (set: DropSet): number =>
      this.#netlink.element(set, deviceKey(device))?.count?.packets ?? 0
    return { spoofedPackets: packets('spoofed_drops'), inboundPackets: packets('inbound_drops') }
  }

  #learnChange({ gone, come }: RulesetChange): LearnedIdentity {
    if (this.#identity === undefined || this.#identity === 'unread') return 'unread'
    const identity = new Map(this.#identity)
    const chains = (guests: readonly GuestRule[]): readonly string[] =>
      guests.flatMap(guestChains).map(({ name }) => name)
    for (const name of chains(gone)) identity.delete(chainKey(name))
    for (const name of chains(come)) {
      identity.set(...chainIdentity(this.#netlink.chain(name), this.#netlink.rules(name)))
    }
    return identity
  }
}
