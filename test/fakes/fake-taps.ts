import { HostFault } from '../../src/core/errors.ts'
import { GATEWAY_MAC, makingDrift, parseDeviceName, tapDrift, tapLayout } from '../../src/core/network/tap.ts'
import { tapSettings } from '../../src/core/network/tap-settings.ts'
import type { LinkCounters } from '../../src/core/world/counters.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import type { TapFacts, TapState } from '../../src/core/world/network-state.ts'
import type { DeviceName, VmId } from '../../src/core/ids.ts'
import type { Taps } from '../../src/ports/network.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type TapsMethod = 'inspect' | 'ensure' | 'ensureAttached' | 'remove' | 'list' | 'counters'

/** A device of the fake host: a tap of some store, or any other device. */
export type FakeDevice =
  | { readonly kind: 'other' }
  | {
      readonly kind: 'tap'
      readonly storeId: string
      readonly id: VmId
      facts: Omit<TapFacts, 'attached'>
      counters: LinkCounters
      /** A monitor that ran already when the device was made, and so does not hold it. */
      lostBy?: number | undefined
    }

type Watcher = (device: DeviceName | undefined) => void

const destinationOf = (route: string): string => route.replace(/ via .*$/, '')

const destinationsOf = (found: FakeDevice | undefined): readonly string[] =>
  found?.kind === 'tap' ? found.facts.routes.map(destinationOf) : []

/** The devices of a host. Notifies watchers when a device comes, goes or changes. */
export class FakeDevices extends Map<DeviceName, FakeDevice> {
  readonly #watchers: Watcher[] = []
  /** Device to which each destination is routed. */
  readonly #byRoute = new Map<string, DeviceName>()

  watch(watcher: Watcher): void {
    this.#watchers.push(watcher)
  }

  /** Returns the tap that a route leads to. */
  withRoute(route: string): DeviceName | undefined {
    return this.#byRoute.get(destinationOf(route))
  }

  override set(device: DeviceName, found: FakeDevice): this {
    this.#forgetRoutes(device)
    super.set(device, found)
    for (const destination of destinationsOf(found)) this.#byRoute.set(destination, device)
    this.#notify(device)
    return this
  }

  override delete(device: DeviceName): boolean {
    this.#forgetRoutes(device)
    const was = super.delete(device)
    if (was) this.#notify(device)
    return was
  }

  #forgetRoutes(device: DeviceName): void {
    for (const destination of destinationsOf(this.get(device)))
      if (this.#byRoute.get(destination) === device) this.#byRoute.delete(destination)
  }

  /** More changes happened at once than the kernel could report. */
  overflow(): void {
    this.#notify(undefined)
  }

  #notify(device: DeviceName | undefined): void {
    if (device !== undefined && parseDeviceName(device) === undefined) return
    for (const watcher of this.#watchers) watcher(device)
  }
}

export type FakeTapsOptions = {
  readonly storeId?: string
  readonly devices?: FakeDevices
  /** Main process of a VM whose monitor runs. If absent, every device counts as held. */
  readonly monitorOf?: (id: VmId) => number | undefined
}

const NOTHING: LinkCounters = {
  receivedBytes: 0,
  receivedPackets: 0,
  transmittedBytes: 0,
  transmittedPackets: 0,
  receiveDroppedPackets: 0,
  receiveLimitedPackets: 0,
  transmitDroppedPackets: 0,
}

/**
 * Taps in memory. Two objects on the same `devices` are two daemons on one host. A monitor holds the device that
 * existed at its start.
 */
export class FakeTaps implements Taps {
  readonly devices: FakeDevices
  readonly #storeId: string
  readonly #monitorOf: FakeTapsOptions['monitorOf']
  readonly #faults = new FaultSwitch<TapsMethod>()

  constructor(options: FakeTapsOptions = {}) {
    this.#storeId = options.storeId ?? 'test-store'
    this.devices = options.devices ?? new FakeDevices()
    this.#monitorOf = options.monitorOf
  }

  failNext(method: TapsMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  inspect(device: DeviceName, id: VmId): Promise<TapState> {
    return this.#faults.run('inspect', () => this.#read(device, id))
  }

  ensure(spec: TapSpec): Promise<void> {
    return this.#faults.run('ensure', () => {
      const { device, vmId: id, userId, bandwidth = {} } = spec
      const doing = `setting up tap ${device} of VM ${id}`
      const state = this.#read(device, id)
      if (state.kind === 'foreign') throw new HostFault('tap_name_taken', `${doing}: ${state.because}`)
      const layout = tapLayout(spec)
      for (const route of layout.routes) this.#clearTheWay(spec, route)
      if (state.kind === 'present' && tapDrift(spec, state.facts).length === 0) return
      if (state.kind === 'present' && makingDrift(spec, state.facts).length > 0) this.devices.delete(device)
      const settings = Object.fromEntries(tapSettings(spec))
      const facts = { owner: userId, macAddress: GATEWAY_MAC, up: true, bandwidth, settings, ...layout }
      const found = this.devices.get(device)
      this.devices.set(
        device,
        found?.kind === 'tap'
          ? { ...found, facts }
          : {
              kind: 'tap',
              storeId: this.#storeId,
              id,
              facts,
              counters: NOTHING,
              lostBy: this.#monitorOf?.(id),
            },
      )
    })
  }

  ensureAttached({ device, vmId: id }: TapSpec, mainPid: number): Promise<void> {
    return this.#faults.run('ensureAttached', () => {
      const doing = `giving monitor ${mainPid} of VM ${id} its tap ${device} back`
      if (this.#read(device, id).kind !== 'present') throw new HostFault('network_failed', doing)
      const found = this.devices.get(device)
      if (this.#monitorOf === undefined || found?.kind !== 'tap') return
      if (this.#monitorOf(id) !== mainPid) throw new HostFault('monitor_detached', doing)
      if (found.lostBy === mainPid) this.devices.set(device, { ...found, lostBy: undefined })
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

  counters(device: DeviceName): Promise<LinkCounters> {
    return this.#faults.run('counters', () => {
      const found = this.devices.get(device)
      if (found?.kind === 'tap' && found.storeId === this.#storeId) return found.counters
      throw new HostFault('network_failed', `reading the counters of tap ${device}`)
    })
  }

  watch(onChange: Watcher): void {
    this.devices.watch(onChange)
  }

  /** Changes what is on a tap, as an administrator would. */
  alter(device: DeviceName, change: Partial<Omit<TapFacts, 'attached'>>): void {
    const found = this.devices.get(device)
    if (found?.kind === 'tap') this.devices.set(device, { ...found, facts: { ...found.facts, ...change } })
  }

  /** Counts packets; watchers are not notified. */
  count(device: DeviceName, counted: Partial<LinkCounters>): void {
    const found = this.devices.get(device)
    if (found?.kind === 'tap') found.counters = { ...found.counters, ...counted }
  }

  #clearTheWay({ device, vmId: id }: TapSpec, route: string): void {
    const holder = this.devices.withRoute(route) ?? device
    if (holder === device) return
    const isRenamed = parseDeviceName(holder) === undefined && this.#read(holder, id).kind === 'present'
    if (isRenamed) this.devices.delete(holder)
    else
      throw new HostFault(
        'network_failed',
        `routing ${destinationOf(route).replace(/\/(32|128)$/, '')} to the guest of VM ${id}: ` +
          `another VM still has it on ${holder}`,
        { retry: 'soon' },
      )
  }

  #read(device: DeviceName, id: VmId): TapState {
    const found = this.devices.get(device)
    if (found === undefined) return { kind: 'absent' }
    if (found.kind === 'other') return { kind: 'foreign', because: 'it is a veth device and no tap' }
    if (found.storeId !== this.#storeId || found.id !== id) {
      return { kind: 'foreign', because: `its alias is "vmhostd:${found.storeId}:${found.id}"` }
    }
    const monitor = this.#monitorOf?.(id)
    const attached = this.#monitorOf === undefined || (monitor !== undefined && monitor !== found.lostBy)
    return { kind: 'present', facts: { ...found.facts, attached } }
  }
}
