import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { hasOwnRules } from '../../core/network/guest-rule.ts'
import { compileChange } from '../../core/network/ruleset-change.ts'
import { compileRuleset } from '../../core/network/ruleset.ts'
import { given } from '../../lib/given.ts'
import { run } from '../exec/exec.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { Connections } from './connections.ts'
import { addressesOf, addressKeys, isPrefix, mayUse } from './guest-elements.ts'
import { NftNetlink, TableWatch } from './nft-netlink.ts'
import { TableRecordFile } from './table-record.ts'
import { WrittenTable } from './written-table.ts'
import type { GuestDrops } from '../../core/world/counters.ts'
import type { GuestRule, FirewallState } from '../../core/world/network-state.ts'
import type { FirewallPolicy } from '../../core/network/ruleset.ts'
import type { DeviceName } from '../../core/ids.ts'
import type { RulesetChange } from '../../core/network/ruleset-change.ts'
import type { Firewall } from '../../ports/network.ts'
import type { DeviceAddress } from './guest-elements.ts'
import type { Guests } from './written-table.ts'

export const TABLE = 'vmhostd'

export type NftFirewallOptions = {
  readonly policy: FirewallPolicy
  readonly guests: Iterable<GuestRule>
  /** The file in which the record of the table is left for the next daemon; below the run directory. */
  readonly recordFile: string
}

/**
 * Writes the table `inet vmhostd`, as its only writer. Calls that come while a transaction runs share the next one.
 * Each call resolves when a transaction that contains it is in force. After a failure the guests stay wanted, and the
 * next call writes them too.
 *
 * A transaction contains only what changes, or the whole table if that is not as we left it. Open connections to a
 * guest continue when its rules are replaced by narrower ones, because the rules decide only which connections may be
 * opened.
 *
 * The counters of a guest start when it is added to the table. They end when it is removed or the table is deleted.
 * They continue when its rule is changed, and when the whole table is written, also by a starting daemon. In that case
 * only the drops in the few milliseconds in between are lost.
 *
 * When an address leaves a guest, its connections remain. They are removed from the kernel's table before the rule
 * changes. So the next guest with that address can be reached only as its own rules allow. A guest runs on when a
 * prefix leaves it, and may open connections until the rule has changed.
 * So those of a prefix are removed again after that.
 */
export class NftFirewall implements Firewall {
  readonly #policy: FirewallPolicy
  readonly #netlink = new NftNetlink(TABLE)
  readonly #written: WrittenTable
  readonly #connections = new Connections()
  readonly #watch = new TableWatch(TABLE, () => void this.#notice())
  /** The guests whose rules should be in force. */
  readonly #wanted: Map<DeviceName, GuestRule>
  /** The rules of removed guests, until their connections are removed too. */
  readonly #leaving = new Map<DeviceName, GuestRule>()
  /** Prefixes that may have left their guests, until their connections are removed after the change of the rules. */
  #formerPrefixes: readonly DeviceAddress[] = []
  /** Whether a guest should come into force, which also writes a table that is absent. A removal does not. */
  #writesAbsent = false
  /** Whether the last transaction failed. Then the whole table is written. */
  #failed = false
  #closed = false
  /** The end of the last job. Transactions and comparisons run one after the other. */
  #idle: Promise<unknown> = Promise.resolve()
  readonly #joinTransaction = this.#joining(() => this.#transact())
  readonly #joinComparison = this.#joining(() => this.#written.state())
  /** Handles a change in the table. It waits for its turn, so our own transaction does not count as a change. */
  readonly #notice = this.#joining(() => this.#informWatchers())
  readonly #watchers: (() => void)[] = []

  /** Changes nothing on the host yet. `guests` must be all guests, so that the first transaction drops none. */
  constructor({ policy, guests, recordFile }: NftFirewallOptions) {
    this.#policy = policy
    const file = new TableRecordFile(recordFile)
    this.#written = new WrittenTable({ netlink: this.#netlink, policy, file })
    this.#wanted = new Map([...guests].map((rule) => [rule.device, rule]))
  }

  /** Puts the table in force, with the guests given to the constructor. */
  async start(): Promise<void> {
    this.#writesAbsent = true
    await this.#enforce(`writing the table inet ${TABLE}`)
  }

  async ensureGuest(rule: GuestRule): Promise<void> {
    this.#writesAbsent = true
    this.#wanted.set(rule.device, rule)
    await this.#enforce(`letting the guest of ${rule.device} through the table inet ${TABLE}`)
  }

  async removeGuest(device: DeviceName): Promise<void> {
    const rule = this.#wanted.get(device)
    if (rule !== undefined) this.#leaving.set(device, rule)
    this.#wanted.delete(device)
    await this.#enforce(`taking the guest of ${device} out of the table inet ${TABLE}`)
  }

  async removeStrangers(): Promise<void> {
    await this.#enforce(`taking guests without a record out of the table inet ${TABLE}`)
  }

  async inspect(device: DeviceName): Promise<FirewallState> {
    try {
      const kind = this.#written.isUntouched() ? 'intact' : await this.#joinComparison()
      return { kind, ...given({ rule: this.#ruleFor(device, kind) }) }
    } catch (error) {
      throw failed(`inspecting the table inet ${TABLE}`, error)
    }
  }

  /** Returns the rule that a guest has in a table of this kind; of an absent table, the rule that it should have. */
  #ruleFor(device: DeviceName, kind: FirewallState['kind']): GuestRule | undefined {
    if (kind === 'intact') return this.#written.rule(device)
    if (kind === 'absent') return this.#wanted.get(device) ?? this.#leaving.get(device)
    return undefined
  }

  /**
   * Returns the drops of a guest. Fails if the guest has no rule in force, or if the table is not as it was written:
   * then the counters are unknown.
   */
  async counters(device: DeviceName): Promise<GuestDrops> {
    const doing = `counting the packets dropped for ${device}`
    const state = await this.inspect(device)
    if (state.kind !== 'intact') throw failed(doing, new Error(`the table inet ${TABLE} is ${state.kind}`))
    if (state.rule === undefined) throw failed(doing, new Error('the device has no rule'))
    try {
      return this.#written.dropped(device)
    } catch (error) {
      throw failed(doing, error)
    }
  }

  watch(onChange: () => void): void {
    this.#watchers.push(onChange)
    try {
      this.#watch.start()
    } catch (error) {
      throw failed(`watching the table inet ${TABLE}`, error)
    }
  }

  close(): void {
    this.#closed = true
    if (!this.#failed) this.#written.leaveRecord()
    this.#watch.close()
    // The running job still reads.
    void this.#idle.finally(() => {
      this.#netlink.close()
      this.#connections.close()
    })
  }

  async #enforce(doing: string): Promise<void> {
    try {
      await this.#joinTransaction()
    } catch (error) {
      throw failed(doing, error)
    }
  }

  async #transact(): Promise<void> {
    const guests: Guests = new Map(this.#wanted)
    const leaving = [...this.#leaving.values()]
    const writesAbsent = this.#writesAbsent || this.#failed
    this.#writesAbsent = false
    const kind = await this.#written.state()
    // Without a change that is known, the whole table is written, and any address may leave its guest.
    const change = kind === 'intact' && !this.#failed ? this.#written.changeTo(guests) : undefined
    const inForce = change === undefined ? this.#written.addressesInForce() : change.gone.flatMap(addressesOf)
    const former = [...leaving.flatMap(addressesOf), ...inForce, ...this.#formerPrefixes]
    await this.#forgetFormer(former, guests)
    this.#formerPrefixes = former.filter(isPrefix)
    if (kind !== 'absent' || writesAbsent) await this.#write(guests, change)
    await this.#forgetFormer(this.#formerPrefixes, guests)
    this.#formerPrefixes = []
    for (const rule of leaving) {
      if (this.#leaving.get(rule.device) === rule) this.#leaving.delete(rule.device)
    }
  }

  /** Removes the connections of addresses and prefixes that their guest no longer has. */
  async #forgetFormer(former: readonly DeviceAddress[], guests: Guests): Promise<void> {
    const distinct = new Map(former.map((one) => [`${one.device} ${one.address}`, one]))
    for (const { device, address } of distinct.values()) {
      const rule = guests.get(device as DeviceName)
      const isKept = (one: string): boolean => rule !== undefined && mayUse(rule, one)
      if (isKept(address)) continue
      if (isPrefix({ address })) await this.#connections.forgetNetwork(address, isKept)
      else await this.#connections.forget(address)
    }
  }

  /** Applies a change; without one, writes the whole table. */
  async #write(guests: Guests, change: RulesetChange | undefined): Promise<void> {
    const changesNothing = change?.gone.length === 0 && change.come.length === 0
    if (changesNothing) return
    this.#failed = true
    if (change === undefined) await this.#writeAll(guests)
    else await this.#apply(change, guests)
    this.#failed = false
  }

  async #writeAll(guests: Guests): Promise<void> {
    const before = this.#netlink.generation()
    await nft(compileRuleset(this.#policy, guests.values(), this.#written.drops()))
    await this.#written.record(guests, before)
  }

  async #apply(change: RulesetChange, guests: Guests): Promise<void> {
    if (!this.#addElements(change)) await nft(compileChange(change))
    await this.#written.recordChange(guests, change)
  }

  /**
   * Makes a change that only adds guests without rules of their own, without running a program. Returns false if the
   * change is another one, or was refused: then `nft` makes it, or says why not.
   */
  #addElements({ gone, come }: RulesetChange): boolean {
    const { generation } = this.#written
    const isSmall = gone.length === 0 && come.length <= limits.firewallGuestsAtOnceMax
    if (generation === undefined || !isSmall || come.some(hasOwnRules)) return false
    try {
      this.#netlink.addElements(addressKeys(come), generation)
      return true
    } catch (error) {
      if (!(error instanceof ErrnoError)) throw error
      return false
    }
  }

  /** Informs the watchers if the table is not as it was written, or cannot be inspected. */
  async #informWatchers(): Promise<void> {
    if (this.#closed) return
    const kind = await this.#written.state().catch(() => undefined)
    if (kind !== 'intact') for (const watcher of this.#watchers) watcher()
  }

  /** Returns a function that joins the run of a job which waits for its turn, and has one wait if none does. */
  #joining<T>(job: () => Promise<T>): () => Promise<T> {
    let waiting: Promise<T> | undefined
    const begin = (): Promise<T> => {
      waiting = undefined
      return job()
    }
    return () => {
      if (waiting !== undefined) return waiting
      waiting = this.#idle.then(begin)
      this.#idle = waiting.catch(() => {})
      return waiting
    }
  }
}

/**
 * Lets the kernel check the whole table without guests, and writes nothing. Throws HostFault `tool_missing` or
 * ExitError with the kernel's reason.
 */
export async function checkFirewall(policy: FirewallPolicy): Promise<void> {
  await nft(compileRuleset(policy, []), '--check')
}

/** Runs a transaction. Its time grows with its text, because no limit bounds the rules of all guests together. */
const nft = (input: string, ...options: readonly string[]) =>
  run(['nft', ...options, '-f', '-'], {
    input,
    timeoutMs: limits.toolMs + Math.ceil(input.length / limits.nftBytesPerMs),
  })

const failed = (doing: string, error: unknown): HostFault =>
  error instanceof HostFault ? error : new HostFault('firewall_failed', doing, { cause: error })
