import { HostFault } from '../../core/errors.ts'
import { sameGuestRule } from '../../core/network/guest-rule.ts'
import { compileAdditions, compileRuleset } from '../../core/network/ruleset.ts'
import { run } from '../exec/exec.ts'
import { guestElements, parseListing } from './nft-listing.ts'
import { NftNetlink } from './nft-netlink.ts'
import type { GuestRule } from '../../core/network/guest-rule.ts'
import type { FirewallPolicy } from '../../core/network/ruleset.ts'
import type { FirewallState } from '../../core/plan/world.ts'
import type { DeviceName } from '../../core/vm/ids.ts'
import type { Firewall } from '../../ports/network.ts'

type Guests = ReadonlyMap<DeviceName, GuestRule>

/**
 * The one writer of the table `inet vmhostd`. Calls that come while a transaction runs share the next one, and each
 * resolves when a transaction that contains it is in force. After a failure the guests stay wanted: whoever calls next
 * brings them along.
 *
 * nftables counts the transactions on its tables. As long as that generation is the one our last transaction made, the
 * table is as we wrote it, at the price of one small system call. Otherwise the table is listed and compared: the guest
 * sets with what we know, the rest with a listing taken right after we wrote it.
 */
export class NftFirewall implements Firewall {
  readonly #policy: FirewallPolicy
  readonly #netlink = new NftNetlink()
  /** What shall be in force. */
  readonly #wanted: Map<DeviceName, GuestRule>
  /** What our last transaction put in force. */
  #applied: Guests = new Map()
  /** The generation that our last transaction made, or the last that a comparison vouched for. */
  #generation: number | undefined
  /** The table without guests, as listed right after we wrote it; undefined before that. */
  #skeleton: string | undefined
  /** The end of the last job; transactions and comparisons run one after the other. */
  #idle: Promise<unknown> = Promise.resolve()
  /** The transaction, or comparison, that waits for its turn. */
  #nextTransaction: Promise<void> | undefined
  #nextComparison: Promise<FirewallState['kind']> | undefined

  /** Changes nothing on the host yet. `guests` are all that there are, so that the first transaction drops none. */
  constructor({ policy, guests }: { readonly policy: FirewallPolicy; readonly guests: Iterable<GuestRule> }) {
    this.#policy = policy
    this.#wanted = new Map([...guests].map((rule) => [rule.device, rule]))
  }

  /** Puts the table in force with the guests given at construction. */
  async start(): Promise<void> {
    await this.#enforce('writing the table inet vmhostd')
  }

  async ensureGuest(rule: GuestRule): Promise<void> {
    this.#wanted.set(rule.device, rule)
    await this.#enforce(`letting the guest of ${rule.device} through the table inet vmhostd`)
  }

  async removeGuest(device: DeviceName): Promise<void> {
    this.#wanted.delete(device)
    await this.#enforce(`taking the guest of ${device} out of the table inet vmhostd`)
  }

  async inspect(device: DeviceName): Promise<FirewallState> {
    try {
      const kind = this.#isUntouched() ? 'intact' : await this.#compare()
      if (kind !== 'intact') return { kind }
      const rule = this.#applied.get(device)
      return rule === undefined ? { kind } : { kind, rule }
    } catch (error) {
      throw failed('inspecting the table inet vmhostd', error)
    }
  }

  close(): void {
    this.#netlink.close()
  }

  #isUntouched(): boolean {
    return this.#generation !== undefined && this.#netlink.generation() === this.#generation
  }

  async #enforce(doing: string): Promise<void> {
    this.#nextTransaction ??= this.#inTurn(() => {
      this.#nextTransaction = undefined
      return this.#transact()
    })
    try {
      await this.#nextTransaction
    } catch (error) {
      throw failed(doing, error)
    }
  }

  async #transact(): Promise<void> {
    const wanted: Guests = new Map(this.#wanted)
    const added = this.#isUntouched() ? additions(this.#applied, wanted) : undefined
    if (added?.length === 0) return
    const before = this.#netlink.generation()
    await run(['nft', '-f', '-'], {
      input: added === undefined ? compileRuleset(this.#policy, wanted.values()) : compileAdditions(added),
    })
    this.#applied = wanted
    // If somebody else's transaction came between, this is not the present generation: then a comparison decides.
    this.#generation = (before + 1) >>> 0
    if (added === undefined) await this.#learnSkeleton()
  }

  /** Where the table cannot be listed as we wrote it, what was learned before stands; the change is in force anyway. */
  async #learnSkeleton(): Promise<void> {
    const listing = await list().catch(() => undefined)
    if (listing !== undefined && this.#isUntouched()) this.#skeleton = listing.skeleton
  }

  #compare(): Promise<FirewallState['kind']> {
    this.#nextComparison ??= this.#inTurn(async () => {
      this.#nextComparison = undefined
      if (this.#isUntouched()) return 'intact'
      const generation = this.#netlink.generation()
      if (!this.#netlink.hasTable('vmhostd')) return 'absent'
      const listing = await list()
      const expected = guestElements(this.#applied.values())
      if (listing === undefined || listing.skeleton !== this.#skeleton) return 'altered'
      if (listing.guests.symmetricDifference(expected).size > 0) return 'altered'
      if (this.#netlink.generation() === generation) this.#generation = generation
      return 'intact'
    })
    return this.#nextComparison
  }

  #inTurn<T>(job: () => Promise<T>): Promise<T> {
    const done = this.#idle.then(job)
    this.#idle = done.catch(() => {})
    return done
  }
}

/** The guests that are new, where that is all the change; undefined where one goes or changes. */
function additions(applied: Guests, wanted: Guests): readonly GuestRule[] | undefined {
  for (const [device, rule] of applied) {
    const now = wanted.get(device)
    if (now === undefined || !sameGuestRule(rule, now)) return undefined
  }
  return [...wanted.values()].filter(({ device }) => !applied.has(device))
}

const list = async () => parseListing((await run(['nft', '-j', 'list', 'table', 'inet', 'vmhostd'])).stdout)

const failed = (doing: string, error: unknown): HostFault =>
  error instanceof HostFault ? error : new HostFault('firewall_failed', doing, { cause: error })
