import type { HostFault } from '../../src/core/errors.ts'
import type { GuestRule } from '../../src/core/network/guest-rule.ts'
import type { FirewallState } from '../../src/core/plan/world.ts'
import type { DeviceName } from '../../src/core/vm/ids.ts'
import type { Firewall } from '../../src/ports/network.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type FirewallMethod = 'inspect' | 'ensureGuest' | 'removeGuest'

/** The table of the fake host. It outlives the daemon that wrote it. */
export type FakeTable = {
  kind: 'absent' | 'present'
  guests: Map<DeviceName, GuestRule>
  /** The daemon that wrote the table as it is now; undefined after somebody changed it. */
  writer: FakeFirewall | undefined
}

/** The table `inet vmhostd` in memory. Like the driver it trusts only what it wrote itself since it started. */
export class FakeFirewall implements Firewall {
  readonly table: FakeTable
  readonly #wanted: Map<DeviceName, GuestRule>
  readonly #faults = new FaultSwitch<FirewallMethod>()

  constructor(options: { guests?: Iterable<GuestRule>; table?: FakeTable } = {}) {
    this.#wanted = new Map([...(options.guests ?? [])].map((rule) => [rule.device, rule]))
    this.table = options.table ?? { kind: 'absent', guests: new Map(), writer: undefined }
  }

  failNext(method: FirewallMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  inspect(device: DeviceName): Promise<FirewallState> {
    return this.#faults.run('inspect', () => {
      if (this.table.kind === 'absent') return { kind: 'absent' }
      if (this.table.writer !== this) return { kind: 'altered' }
      const rule = this.table.guests.get(device)
      return rule === undefined ? { kind: 'intact' } : { kind: 'intact', rule }
    })
  }

  ensureGuest(rule: GuestRule): Promise<void> {
    this.#wanted.set(rule.device, rule)
    return this.#faults.run('ensureGuest', () => this.#replace())
  }

  removeGuest(device: DeviceName): Promise<void> {
    this.#wanted.delete(device)
    return this.#faults.run('removeGuest', () => this.#replace())
  }

  /** Takes the table away, as `nft flush ruleset` does. */
  flush(): void {
    Object.assign(this.table, { kind: 'absent', guests: new Map(), writer: undefined })
  }

  /** Changes the table by hand. */
  alter(): void {
    this.table.writer = undefined
  }

  #replace(): void {
    Object.assign(this.table, { kind: 'present', guests: new Map(this.#wanted), writer: this })
  }
}
