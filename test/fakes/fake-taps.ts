import { HostFault } from '../../src/core/errors.ts'
import { tapLayout } from '../../src/core/network/tap.ts'
import type { TapFacts, TapSpec, TapState } from '../../src/core/network/tap.ts'
import type { DeviceName, UserId, VmId } from '../../src/core/vm/ids.ts'
import type { Taps } from '../../src/ports/network.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type TapsMethod = 'inspect' | 'ensure' | 'remove' | 'list'

/** A device of the fake host: a tap of some store, or anything else. */
export type FakeDevice =
  | { readonly kind: 'other' }
  | {
      readonly kind: 'tap'
      readonly storeId: string
      readonly id: VmId
      readonly userId: UserId
      facts: TapFacts
    }

/** Taps in memory. Two on the same `devices` are two daemons on one host. */
export class FakeTaps implements Taps {
  readonly devices: Map<DeviceName, FakeDevice>
  readonly #storeId: string
  readonly #faults = new FaultSwitch<TapsMethod>()

  constructor(options: { storeId?: string; devices?: Map<DeviceName, FakeDevice> } = {}) {
    this.#storeId = options.storeId ?? 'test-store'
    this.devices = options.devices ?? new Map()
  }

  failNext(method: TapsMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  inspect(device: DeviceName, id: VmId, userId: UserId): Promise<TapState> {
    return this.#faults.run('inspect', () => this.#read(device, id, userId))
  }

  ensure(spec: TapSpec): Promise<void> {
    return this.#faults.run('ensure', () => {
      const { device, vmId: id, userId } = spec
      const doing = `setting up tap ${device} of VM ${id}`
      const state = this.#read(device, id, userId)
      if (state.kind === 'foreign') throw new HostFault('tap_name_taken', `${doing}: ${state.because}`)
      const layout = tapLayout(spec)
      for (const [name, other] of this.devices) {
        if (name === device || other.kind !== 'tap') continue
        const taken = layout.routes.find((route) => other.facts.routes.includes(route))
        if (taken !== undefined)
          throw new HostFault('network_failed', `${doing}: ${taken} is routed to ${name}`)
      }
      this.devices.set(device, {
        kind: 'tap',
        storeId: this.#storeId,
        id,
        userId,
        facts: { up: true, ...layout },
      })
    })
  }

  remove(device: DeviceName, id: VmId): Promise<void> {
    return this.#faults.run('remove', () => {
      const found = this.devices.get(device)
      if (found?.kind === 'tap' && found.id === id && found.storeId === this.#storeId)
        this.devices.delete(device)
    })
  }

  list(): Promise<readonly { readonly device: DeviceName; readonly id: VmId; readonly storeId: string }[]> {
    return this.#faults.run('list', () =>
      [...this.devices].flatMap(([device, found]) =>
        found.kind === 'tap' ? [{ device, id: found.id, storeId: found.storeId }] : [],
      ),
    )
  }

  /** Changes what is on a tap, as an administrator would. */
  alter(device: DeviceName, change: Partial<TapFacts>): void {
    const found = this.devices.get(device)
    if (found?.kind === 'tap') found.facts = { ...found.facts, ...change }
  }

  #read(device: DeviceName, id: VmId, userId: UserId): TapState {
    const found = this.devices.get(device)
    if (found === undefined) return { kind: 'absent' }
    if (found.kind === 'other') return { kind: 'foreign', because: 'it is a veth device and no tap' }
    if (found.storeId !== this.#storeId || found.id !== id) {
      return { kind: 'foreign', because: `its alias is "vmhostd:${found.storeId}:${found.id}"` }
    }
    if (found.userId !== userId) return { kind: 'foreign', because: `it belongs to user ${found.userId}` }
    return { kind: 'present', facts: found.facts }
  }
}
