import assert from 'node:assert/strict'
import { eventually } from '../../daemon/support/eventually.ts'
import { startCtlStage } from './ctl-stage.ts'
import { create, settle } from './vms.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../../src/core/ids.ts'
import type { Arrival } from '../../../src/core/migration/arrival.ts'
import type { NodeName } from '../../../src/core/migration/offer.ts'
import type { Departure } from '../../../src/core/migration/departure.ts'
import type { Pki } from '../../daemon/support/controller-host.ts'
import type { CtlStage, Ran, Running, RunOptions } from './ctl-stage.ts'

export const WEB = 'web-1' as VmId
const SOURCE_URL = 'https://10.0.0.1:9001'

/** Two daemons of which neither acts on its host; the second one reads offers of the first one. */
export class TwoHosts {
  readonly source: CtlStage
  readonly destination: CtlStage

  private constructor(source: CtlStage, destination: CtlStage) {
    this.source = source
    this.destination = destination
  }

  /** Starts both, with a VM that runs at the source. */
  static async start(t: TestContext, pki: Pki): Promise<TwoHosts> {
    const source = await startCtlStage(t, pki)
    const destination = await startCtlStage(t, pki, { settings: { host: { id: 'host-2' } } })
    destination.host.host.sourceHosts.node = 'host-2' as NodeName
    destination.host.host.sourceHosts.peers.set(SOURCE_URL, source.host.departures)
    assert.equal((await create(source, WEB)).status, 0)
    settle(source, WEB)
    return new TwoHosts(source, destination)
  }

  /** Returns the same hosts for a move in the other direction. */
  back(): TwoHosts {
    const { source, destination } = this
    source.host.host.sourceHosts.peers.set(SOURCE_URL, destination.host.departures)
    return new TwoHosts(destination, source)
  }

  line(more = ''): string {
    return `vm migrate web-1 --to ${this.destination.profile} --source-url ${SOURCE_URL} ${more}`
  }

  /** The time of both hosts. */
  nowMs(): number {
    return this.source.host.clock.now()
  }

  run(more?: string): Promise<Ran> {
    return this.start(more).result
  }

  start(more?: string, options: RunOptions = {}): Running {
    const shell = { nowMs: () => this.nowMs(), ...options.shell }
    return this.source.start(this.line(more), { ...options, shell })
  }

  /** Begins a move, and waits until the destination has taken the offer and is being watched. */
  async begin(more?: string, options?: RunOptions): Promise<Running> {
    const running = this.start(more, options)
    await this.#watched()
    return running
  }

  /** Changes something, and waits until the program has shown it. */
  async shows({ printed }: Running, act: () => void): Promise<void> {
    const before = printed()
    act()
    await eventually(() => printed() !== before)
  }

  /** Waits until the program watches both hosts. */
  #watched(): Promise<void> {
    const { source, destination } = this
    return eventually(() => source.host.waits.size === 1 && destination.host.waits.size === 1)
  }

  get departure(): Departure {
    const { departure } = this.source.host.store.vms.get(WEB) ?? {}
    assert.ok(departure)
    return departure
  }

  departs(change: Partial<Departure>): void {
    this.source.host.store.departures.set(WEB, { ...this.departure, ...change }, Date.now())
  }

  arrives(change: Partial<Arrival>): void {
    const { store } = this.destination.host
    const { arrival } = store.vms.get(WEB) ?? {}
    assert.ok(arrival)
    store.arrivals.set(WEB, { ...arrival, ...change }, Date.now())
  }

  /** Lets the source release the guest to the destination, where it does not run yet. */
  release(): void {
    this.departs({ stage: 'released', lastRound: 2 })
    this.arrives({ stage: 'released', round: 2 })
  }

  /** Lets the guest live at the destination. */
  async arrive(): Promise<void> {
    this.release()
    settle(this.destination, WEB)
  }

  /** Removes a VM whose deletion is requested, as the reconciler does. */
  async removed({ host: { store } }: CtlStage): Promise<void> {
    await eventually(() => store.vms.get(WEB)?.deleting === true)
    store.vms.forget(WEB, 1)
  }

  /** Removes a VM, as a request and the reconciler do. */
  async remove(stage: CtlStage): Promise<void> {
    assert.equal((await stage.run('vm rm web-1')).status, 0)
    await this.removed(stage)
  }
}
