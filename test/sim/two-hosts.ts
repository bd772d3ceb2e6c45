import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { silentLog } from '../../src/log/log.ts'
import { sweepOrphans } from '../../src/reconcile/sweep-orphans.ts'
import { Store } from '../../src/store/store.ts'
import { MIB } from '../../src/lib/byte-units.ts'
import { composed } from '../composed.ts'
import { FakeCapacity } from '../fakes/fake-capacity.ts'
import { FakeHost } from '../fakes/fake-host.ts'
import { calm, Chaos } from './chaos.ts'
import { mortalStore } from './mortal-store.ts'
import { StateDisk } from './state-disk.ts'
import type { Departures } from '../../src/api/coordination/dependencies.ts'
import type { CommandContext } from '../../src/commands/context.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { NodeName } from '../../src/core/migration/offer.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'
import type { Composition } from '../../src/daemon/compose.ts'
import type { FakeClock } from '../fakes/fake-clock.ts'
import type { Odds } from './chaos.ts'

export const VM = 'a' as VmId

/** Lives that a host can begin: the guests of different hosts have different numbers. */
const LIVES_OF_A_HOST = 1000

/** A host with a daemon that may die, and be started again. */
export class SimulatedHost {
  readonly origin: string
  readonly host: FakeHost
  readonly #random: () => number
  readonly #directory: string
  #disk: StateDisk
  /** Stores of lives that ended with the power: what is left of them may still read. */
  readonly #former: Store[] = []
  readonly #flushes: boolean
  #store: Store
  #life: ({ readonly chaos: Chaos } & Composition) | undefined
  /** Whether a guest was lost with the power of this host. */
  lostPower = false

  constructor(
    number: number,
    { clock, random, powerLoss }: { clock: FakeClock; random: () => number; powerLoss: boolean },
  ) {
    this.origin = `https://192.0.2.${number}:9001`
    this.#random = random
    this.#flushes = powerLoss
    this.#directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'vmhostd-move-'))
    this.#disk = new StateDisk(this.#newDirectory())
    this.#store = this.#open()
    this.host = new FakeHost(clock, this.#store.storeId)
    this.host.monitor.lives = number * LIVES_OF_A_HOST
    this.host.diskContents.set(VM, { content: Buffer.from('version 0'), sizeBytes: MIB })
  }

  get record(): VmRecord | undefined {
    return this.#store.vms.get(VM)
  }

  get isDead(): boolean {
    return this.#life?.chaos.dead !== false
  }

  get chaos(): Chaos {
    assert.ok(this.#life !== undefined)
    return this.#life.chaos
  }

  /** Returns the context of commands. A request that was accepted is on record. */
  get context(): CommandContext {
    assert.ok(this.#life !== undefined)
    return { ...this.#life.commands, store: this.#store }
  }

  get arrivals(): Composition['arrivals'] {
    assert.ok(this.#life !== undefined)
    return this.#life.arrivals
  }

  /** Lets this host ask another one. An answer of a daemon that dies meanwhile never comes; the connection breaks. */
  connect(other: SimulatedHost, node: NodeName): void {
    this.host.sourceHosts.node = node
    this.host.sourceHosts.peers.set(other.origin, () => other.#departures())
  }

  #departures(): Departures | undefined {
    if (this.isDead) return undefined
    const departures = this.#life?.coordination.departures()
    if (departures === undefined) return undefined
    const reads = this.chaos.untilDeath(departures.reads)
    return new Proxy(this.chaos.untilDeath(departures), {
      get: (target, name) => (name === 'reads' ? reads : Reflect.get(target, name)),
    })
  }

  async start(odds: Odds): Promise<void> {
    if (!this.#disk.isOn) await this.#restorePower()
    await this.#store.flushed()
    this.host.incomingDisks.restart()
    this.host.traffic.forgetWatchers()
    const chaos = new Chaos(this.host, odds, this.#random, () => this.#disk.losePower())
    const parts = composed({
      store: mortalStore(this.#store, chaos),
      host: chaos.host,
      instead: { capacity: new FakeCapacity() },
    })
    this.#life = { chaos, ...parts }
    const started = parts.reconciler.start()
    await this.quiet()
    if (chaos.dead) return
    await started
    try {
      parts.offers.start()
      parts.source.start()
      void parts.arrivals.start()
    } catch (death) {
      if (chaos.dead) return
      throw death
    }
    const sweep = { store: this.#store, host: chaos.host, log: silentLog }
    void sweepOrphans(sweep, new AbortController().signal, new Set())
    await this.quiet()
  }

  /** Lets the daemon die. */
  kill(): void {
    this.chaos.dead = true
  }

  /** Cuts the power of host and daemon. */
  async loseHost(): Promise<void> {
    this.kill()
    this.#disk.losePower()
    await this.#restorePower()
  }

  async #restorePower(): Promise<void> {
    this.lostPower = true
    await this.host.reboot()
    this.#former.push(this.#store)
    this.#disk = this.#disk.restoredIn(this.#newDirectory())
    this.#store = this.#open()
  }

  /** Resolves when all passes have ended, or the daemon has died. */
  async quiet(): Promise<void> {
    const idle = this.#life?.reconciler.idle()
    const isIdle = Promise.resolve(idle).then(() => true)
    for (let turn = 0; turn < 5000; turn += 1) {
      if ((await Promise.race([isIdle, setImmediate(false)])) || this.isDead) return
    }
    assert.fail('passes did not end')
  }

  get runs(): boolean {
    return (
      this.host.fakeUnits.stateOf(VM).kind === 'active' && this.host.monitor.stateOf(VM).kind === 'running'
    )
  }

  close(): void {
    for (const store of [...this.#former, this.#store]) store.close()
    rmSync(this.#directory, { recursive: true })
  }

  #newDirectory(): string {
    return mkdtempSync(join(this.#directory, 'state-'))
  }

  #open(): Store {
    const flush = this.#flushes ? this.#disk.flush : async (): Promise<void> => {}
    return new Store(this.#disk.directory, { first: 600_000, count: 100 }, { datasync: flush })
  }
}

export { calm }
