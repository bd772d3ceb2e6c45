import { HostFault } from '../../src/core/errors.ts'
import type { GuestDrops } from '../../src/core/world/counters.ts'
import type { GuestRule, FirewallState } from '../../src/core/world/network-state.ts'
import type { DeviceName } from '../../src/core/ids.ts'
import type { Firewall } from '../../src/ports/network.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type FirewallMethod = 'inspect' | 'ensureGuest' | 'removeGuest' | 'removeStrangers' | 'counters'

/** The table of the fake host. It outlives the daemon that wrote it. */
export type FakeTable = {
  kind: 'absent' | 'present'
  guests: Map<DeviceName, GuestRule>
  /** The daemon that wrote the current table; undefined after somebody else changed it. */
  writer: FakeFirewall | undefined
  drops: Map<DeviceName, GuestDrops>
  /** The daemon that stopped in order, and left a record of the table that it wrote. */
  left: FakeFirewall | undefined
}

const NO_DROPS: GuestDrops = { spoofedPackets: 0, inboundPackets: 0 }

/**
 * The table `inet vmhostd` in memory. Like the driver it trusts its own writes, and the record of a daemon that stopped
 * in order.
 */
export class FakeFirewall implements Firewall {
  readonly table: FakeTable
  readonly #wanted: Map<DeviceName, GuestRule>
  /** Counts since this daemon wrote the table. */
  readonly #changed = new Set<DeviceName>()
  readonly #faults = new FaultSwitch<FirewallMethod>()
  readonly #watchers: (() => void)[] = []
  /** True once it knows what the table should contain, and so can report an alteration. */
  #judges = false

  constructor(options: { guests?: Iterable<GuestRule>; table?: FakeTable } = {}) {
    this.#wanted = new Map([...(options.guests ?? [])].map((rule) => [rule.device, rule]))
    this.table = options.table ?? emptyTable()
  }

  failNext(method: FirewallMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  inspect(device: DeviceName): Promise<FirewallState> {
    return this.#faults.run('inspect', () => this.#state(device))
  }

  ensureGuest(rule: GuestRule): Promise<void> {
    this.#wanted.set(rule.device, rule)
    this.#changed.add(rule.device)
    return this.#faults.run('ensureGuest', () => this.#write())
  }

  removeGuest(device: DeviceName): Promise<void> {
    this.#wanted.delete(device)
    this.#changed.add(device)
    return this.#faults.run('removeGuest', () => {
      if (this.table.kind === 'present') this.#write()
    })
  }

  removeStrangers(): Promise<void> {
    return this.#faults.run('removeStrangers', () => {
      if (!this.#judges) this.#takeRecord()
      if (this.table.kind === 'absent') return
      for (const device of this.table.guests.keys()) if (!this.#wanted.has(device)) this.#changed.add(device)
      this.#write()
    })
  }

  counters(device: DeviceName): Promise<GuestDrops> {
    return this.#faults.run('counters', () => {
      const state = this.#state(device)
      if (state.kind !== 'intact' || state.rule === undefined) {
        throw new HostFault('firewall_failed', `counting the packets dropped for ${device}`)
      }
      return this.table.drops.get(device) ?? NO_DROPS
    })
  }

  watch(onChange: () => void): void {
    this.#watchers.push(onChange)
  }

  /** Removes the table, as `nft flush ruleset` does. */
  flush(): void {
    Object.assign(this.table, emptyTable())
    this.#notify()
  }

  /** Changes the table by hand. */
  alter(): void {
    this.table.writer = undefined
    this.#notify()
  }

  /** Stops this daemon in order. */
  stop(): void {
    if (this.#judges) this.table.left = this
  }

  /** Counts packets of a guest that the table drops. */
  drop(device: DeviceName, packets: GuestDrops): void {
    const { spoofedPackets, inboundPackets } = this.table.drops.get(device) ?? NO_DROPS
    this.table.drops.set(device, {
      spoofedPackets: spoofedPackets + packets.spoofedPackets,
      inboundPackets: inboundPackets + packets.inboundPackets,
    })
  }

  #state(device: DeviceName): FirewallState {
    if (!this.#judges) this.#takeRecord()
    const { kind, writer, guests } = this.table
    if (kind === 'present' && writer !== this) return { kind: this.#judges ? 'altered' : 'unverified' }
    const rule = kind === 'present' ? guests.get(device) : this.#wanted.get(device)
    return { kind: kind === 'present' ? 'intact' : 'absent', ...(rule === undefined ? {} : { rule }) }
  }

  /**
   * Adopts the record that the previous daemon left. The table counts as written by this daemon if it was not changed
   * since.
   */
  #takeRecord(): void {
    const { left, writer } = this.table
    this.table.left = undefined
    if (left === undefined) return
    this.#judges = true
    if (left === writer) this.table.writer = this
  }

  /** Writes the changes since the last write if this daemon wrote the current table; otherwise writes all of it. */
  #write(): void {
    const { kind, writer, guests, drops } = this.table
    if (kind === 'absent' || writer !== this || !this.#judges) return this.#replace()
    this.table.left = undefined
    for (const device of this.#changed) {
      const rule = this.#wanted.get(device)
      if (rule === undefined) drops.delete(device)
      if (rule === undefined) guests.delete(device)
      else guests.set(device, rule)
    }
    this.#changed.clear()
  }

  #replace(): void {
    const drops = new Map([...this.table.drops].filter(([device]) => this.#wanted.has(device)))
    this.#judges = true
    this.#changed.clear()
    this.table.left = undefined
    Object.assign(this.table, { kind: 'present', guests: new Map(this.#wanted), writer: this, drops })
  }

  #notify(): void {
    for (const watcher of this.#watchers) watcher()
  }
}

/** Returns the table as it is before the first write. */
export const emptyTable = (): FakeTable => ({
  kind: 'absent',
  guests: new Map(),
  writer: undefined,
  drops: new Map(),
  left: undefined,
})
