import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { given } from '../../src/lib/given.ts'
import { silentLog } from '../../src/log/log.ts'
import { sweepOrphans } from '../../src/reconcile/sweep-orphans.ts'
import { Store } from '../../src/store/store.ts'
import { composed } from '../composed.ts'
import { SAVES_MS } from '../reconcile-stage.ts'
import { FakeCapacity } from '../fakes/fake-capacity.ts'
import { FakeClock } from '../fakes/fake-clock.ts'
import { FakeHost } from '../fakes/fake-host.ts'
import { HostChecks } from './host-checks.ts'
import { SleepWatch } from './sleep-watch.ts'
import { checkEvents } from './event-checks.ts'
import { calm, Chaos, isCalm } from './chaos.ts'
import {
  DISTURBANCES,
  REBOOTS,
  SHUTDOWNS,
  CLOCK_SETS,
  MOVES,
  OUTAGES,
  SETS_MS,
  HEAL_MS,
  MICROTASKS_A_PASS,
  REST_MS,
  TURNS_MAX,
} from './rates.ts'
import { StateDisk } from './state-disk.ts'
import { ids, Player } from './player.ts'
import { pick, randomFrom } from './random.ts'
import type { CommandContext } from '../../src/commands/context.ts'
import type { Composition } from '../../src/daemon/compose.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Odds } from './chaos.ts'

/** The VM whose guest ends when it is asked to. */
const WITH_AGENT = 'b' as VmId

/** The whole daemon below its API, on a fake host, with time of its own. One seed is one history. */
export class Simulation {
  readonly clock: FakeClock
  readonly host: FakeHost
  readonly #random: () => number
  readonly #directory: string
  readonly #disk: StateDisk
  #store: Store
  readonly #odds: Odds
  readonly #checks: HostChecks
  readonly sleep: SleepWatch
  readonly #player: Player
  #life: ({ readonly chaos: Chaos } & Composition) | undefined
  /** The end of the daemon's work while the host shuts down. */
  #hostEnd: Promise<unknown> | undefined
  #violation: unknown
  crashes = 0

  constructor(seed: number, odds: Odds) {
    this.#random = randomFrom(seed)
    this.#odds = odds
    this.clock = new FakeClock({ random: this.#random })
    this.#directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'vmhostd-sim-'))
    this.#disk = new StateDisk(this.#directory)
    this.#store = this.#openStore()
    this.host = new FakeHost(this.clock, this.#store.storeId)
    for (const monitor of Object.values(this.host.monitors)) monitor.agents.add(WITH_AGENT)
    this.sleep = new SleepWatch({
      host: this.host,
      recordOf: (id) => this.#store.vms.get(id),
      onViolation: (violation) => {
        this.#violation ??= violation
      },
    })
    this.#checks = new HostChecks({
      host: this.host,
      recordOf: (id) => this.#store.vms.get(id),
      sleep: this.sleep,
      withoutTraffic: odds.withoutTraffic === true,
    })
    this.#player = new Player({
      host: this.host,
      clock: this.clock,
      sleep: this.sleep,
      random: this.#random,
      ...given({ monitor: odds.monitor }),
      store: () => this.#store,
      life: () => this.#life ?? assert.fail('no daemon lives'),
      shutDown: () => this.#shutDown(),
    })
  }

  /** Counts what the player has seen. */
  get seen(): Player['seen'] {
    return this.#player.seen
  }

  /** Runs random edits, faults, crashes and time. Then all faults stop, and everything must come to rest as desired. */
  async run(edits: number): Promise<void> {
    await this.#boot(this.#odds)
    for (let edit = 0; edit < edits; edit += 1) {
      if (this.#random() < DISTURBANCES) this.#player.disturb()
      const outage = this.#random() < OUTAGES
      if (outage) this.#losePool()
      // Edits of one burst arrive while the passes of the earlier ones are at any point.
      for (let burst = 1 + Math.floor(this.#random() * 3); burst > 0; burst -= 1) await this.#edit()
      await this.#quiet()
      this.#checkDrained()
      if (this.#random() < MOVES) this.#moveAll()
      if (this.#random() < REBOOTS) await this.#losePower()
      if (this.#random() < CLOCK_SETS) this.clock.set(pick(this.#random, SETS_MS))
      if (this.#life?.chaos.dead === true) {
        this.crashes += 1
        this.#excuse()
        await this.#boot(this.#odds)
      }
      this.clock.advance(Math.floor(this.#random() * 5000))
      if (outage) {
        await this.#quiet()
        this.host.storage.setInSight(true)
      }
      if (this.#random() < SHUTDOWNS) await this.#shutDownAndBoot()
    }
    await this.#putBack()
    // Twice as long as the longest wait of a VM that flaps.
    await this.#heal()
    await this.#heal()
    for (const id of ids) this.#checks.checkAsleepWhereIdle(id)
    for (const id of ids) this.#player.receive(id)
    for (const id of ids) this.#player.takeBack(id)
    await this.#quiet()
    if (this.#violation !== undefined) throw this.#violation
    for (const id of ids) this.#checks.checkAtRest(id)
    for (const id of ids) this.#checks.checkAwake(id)
    checkEvents(this.#store)
    assert.deepEqual(await this.host.rounds.list(), [], 'rounds are left of migrations that are over')
    this.sleep.check(ids)
    if (isCalm(this.#odds)) this.sleep.checkNoneLost()
  }

  /**
   * Runs a VM's life up to the given act. At the given moment of that act the daemon dies and is started again. Returns
   * false if the act has fewer moments than that.
   */
  async live(act: number, dieAt: number): Promise<boolean> {
    const [id] = ids
    const acts = this.#player.actsOf(id)
    await this.#boot(calm)
    for (const perform of acts.slice(0, act)) {
      perform(this.#commands())
      await this.#quiet()
      await this.#bootAgain()
      this.#checks.checkAtRest(id)
      this.#checks.checkKeptAwake(id)
    }
    this.#life?.chaos.restart({ ...calm, dieAt, powerLoss: this.#odds.powerLoss ?? 0 })
    acts[act]?.(this.#commands())
    await this.#quiet()
    const died = (await this.#bootAgain()) || this.#life?.chaos.dead === true
    await this.#heal(REST_MS)
    this.#checks.checkAtRest(id)
    this.#checks.checkAsleepWhereIdle(id)
    this.#player.receive(id)
    this.#player.takeBack(id)
    await this.#quiet()
    this.#checks.checkAwake(id)
    this.sleep.check([id])
    this.sleep.checkNoneLost()
    checkEvents(this.#store)
    if (this.#violation !== undefined) throw this.#violation
    return died
  }

  #openStore(): Store {
    // The disk flushes at once unless power is lost, because copies of the state take time.
    const flush = (this.#odds.powerLoss ?? 0) > 0 ? this.#disk.flush : async (): Promise<void> => {}
    const store = new Store(this.#directory, { first: 600_000, count: 100 }, { datasync: flush })
    store.onVmChange((id) => {
      // A pass treats an error thrown here as a bug of its own, so it is kept for the end.
      try {
        this.#checks.checkPublished(id)
      } catch (violation) {
        this.#violation ??= violation
      }
    })
    return store
  }

  /** Restores the host's power: guests are gone, and the store is as it was flushed. */
  async #restorePower(): Promise<void> {
    await this.host.reboot()
    this.#store.close()
    this.#disk.restorePower()
    this.#store = this.#openStore()
    this.#checks.restart(ids)
    this.#excuse()
  }

  close(): void {
    this.#store.close()
    rmSync(this.#directory, { recursive: true })
  }

  async #boot(odds: Odds): Promise<void> {
    if (!this.#disk.isOn) await this.#restorePower()
    await this.#store.flushed()
    const chaos = new Chaos(this.host, odds, this.#random, () => this.#disk.losePower())
    const parts = composed({
      store: this.#store,
      host: chaos.host,
      instead: { capacity: new FakeCapacity() },
    })
    this.#life = { chaos, ...parts }
    parts.offers.start()
    parts.drainer.start()
    const started = parts.reconciler.start()
    await this.#quiet()
    if (chaos.dead) return
    await started
    parts.source.start()
    const sweep = { store: this.#store, host: chaos.host, log: silentLog }
    void sweepOrphans(sweep, new AbortController().signal, new Set())
    await this.#quiet()
  }

  /** Returns what commands need of the present life. */
  #commands(): CommandContext {
    assert.ok(this.#life !== undefined)
    return this.#life.commands
  }

  async #edit(): Promise<void> {
    this.#player.edit()
    for (let turns = Math.floor(this.#random() * MICROTASKS_A_PASS); turns > 0; turns -= 1)
      await Promise.resolve()
  }

  #moveAll(): void {
    if (this.#life?.chaos.dead === true) return
    for (const id of ids) this.#player.moveOn(id)
  }

  /** A packet that arrives meanwhile for a sleeping guest may wait too long. */
  #losePool(): void {
    this.#excuse()
    this.host.storage.setInSight(false)
  }

  #excuse(): void {
    for (const id of ids) this.sleep.excuse(id)
  }

  /** Cuts the power of daemon and host. */
  async #losePower(): Promise<void> {
    if (this.#life !== undefined) this.#life.chaos.dead = true
    await this.host.reboot()
  }

  /** Begins a shutdown of the host. The daemon saves the guests, and ends. */
  #shutDown(): void {
    const { reconciler } = this.#life ?? assert.fail('no daemon lives')
    this.#hostEnd = reconciler
      .endWithHost('save', { savesMs: SAVES_MS, signal: AbortSignal.abort() })
      .then(() => reconciler.stop())
  }

  async #shutDownAndBoot(): Promise<void> {
    if (this.#life?.chaos.dead !== false) return
    this.#shutDown()
    await this.#quiet()
    await this.#bootAgain()
  }

  /**
   * Ends the units as systemd does, and boots the host, if it shuts down. A daemon that was to die at a moment after
   * its end dies in its next life. Returns whether it died before its end.
   */
  async #bootAgain(): Promise<boolean> {
    if (this.#hostEnd === undefined || this.#life === undefined) return false
    this.#hostEnd = undefined
    const { chaos } = this.#life
    const { odds, moments, dead } = chaos
    this.#excuse()
    // The watch sees the end of each unit, and wants its guest to be saved.
    const isOrderly = !dead && isCalm(odds)
    if (isOrderly) for (const id of ids) await this.host.units.ensureStopped(id, new AbortController().signal)
    chaos.dead = true
    await this.host.reboot()
    const rest = odds.dieAt === undefined ? odds : { ...odds, dieAt: odds.dieAt - moments }
    await this.#boot(dead ? this.#healed() : rest)
    return dead
  }

  /** Lets everything run that does not wait for time. */
  async #quiet(): Promise<void> {
    const idle = Promise.all([this.#life?.reconciler.idle(), this.#hostEnd]).then(() => true)
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      const done = await Promise.race([idle, setImmediate(false)])
      if (done || this.#life?.chaos.dead === true) return
    }
    assert.fail(`passes did not end within ${TURNS_MAX} turns`)
  }

  #checkDrained(): void {
    const { state } = this.#store.maintenance.get()
    const { maintenances } = this.#player.seen
    this.#checks.checkDrained(ids, state === 'drained' ? maintenances : undefined)
  }

  /** Ends the maintenance of the host. */
  async #putBack(): Promise<void> {
    // A loss of power must not take the request back.
    await this.#heal(0)
    this.#player.maintain({ state: 'schedulable' })
    await this.#quiet()
  }

  /** Returns the odds of a host without faults that come and go. */
  #healed(): Odds {
    return this.#odds.withoutTraffic === true ? { ...calm, withoutTraffic: true } : calm
  }

  /** Ends all faults, and lets time pass. */
  async #heal(ms = HEAL_MS): Promise<void> {
    const healed = this.#healed()
    if (this.#life?.chaos.dead !== false) await this.#boot(healed)
    else this.#life.chaos.odds = healed
    const untilMs = this.clock.monotonicMs() + ms
    while (this.clock.monotonicMs() < untilMs) {
      await this.#quiet()
      this.clock.advance(Math.min(this.clock.nextMs() ?? ms, untilMs - this.clock.monotonicMs()))
    }
    await this.#quiet()
  }
}
