import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { createVm } from '../../src/commands/vm/create-vm.ts'
import { setCompute, setDisk, setNetwork } from '../../src/commands/vm/reshape.ts'
import { rebuildVm } from '../../src/commands/vm/rebuild-vm.ts'
import { deleteVm } from '../../src/commands/vm/delete-vm.ts'
import { keepAwake, rebootVm, setPower } from '../../src/commands/vm/set-power.ts'
import { isHeldBack } from '../../src/core/vm/leaving.ts'
import { silentLog } from '../../src/log/log.ts'
import { sweepOrphans } from '../../src/reconcile/sweep-orphans.ts'
import { Store } from '../../src/store/store.ts'
import { composed } from '../composed.ts'
import { FakeCapacity } from '../fakes/fake-capacity.ts'
import { FakeClock } from '../fakes/fake-clock.ts'
import { FakeHost } from '../fakes/fake-host.ts'
import { HostChecks } from './host-checks.ts'
import { SleepWatch } from './sleep-watch.ts'
import { checkEvents } from './event-checks.ts'
import { actsOf } from './acts.ts'
import { calm, Chaos, isCalm } from './chaos.ts'
import { disturb } from './disturb.ts'
import {
  DISTURBANCES,
  REBOOTS,
  CLOCK_SETS,
  MOVES,
  OUTAGES,
  KEPT_AWAKE_MS,
  SETS_MS,
  GRACES_SECONDS,
  HEAL_MS,
  MICROTASKS_A_PASS,
  REST_MS,
  TURNS_MAX,
} from './rates.ts'
import { StateDisk } from './state-disk.ts'
import { EXPIRIES_MS, moveOn, offer, takeBack } from './leave.ts'
import { pick, randomFrom } from './random.ts'
import type { CreateVm } from '../../src/core/vm/create.ts'
import {
  COMPUTE,
  networkOf,
  POWERS,
  PREFIXES,
  requestOn,
  imageOn,
  SIZES_MIB,
  TIMEOUTS_SECONDS,
} from './requests.ts'
import type { CommandContext } from '../../src/commands/context.ts'
import type { StopTerms } from '../../src/core/vm/stop.ts'
import type { Composition } from '../../src/daemon/compose.ts'
import type { DesiredPower } from '../../src/core/desired.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Odds } from './chaos.ts'

/** The VM whose guest ends when it is asked to. */
const WITH_AGENT = 'b' as VmId
const ids = ['a', 'b', 'c'] as string[] as [VmId, ...VmId[]]

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
  #life: ({ readonly chaos: Chaos } & Composition) | undefined
  #violation: unknown
  crashes = 0
  readonly seen = { handovers: 0, releases: 0 }

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
  }

  /** Runs random edits, faults, crashes and time. Then all faults stop, and everything must come to rest as desired. */
  async run(edits: number): Promise<void> {
    await this.#boot(this.#odds)
    for (let edit = 0; edit < edits; edit += 1) {
      if (this.#random() < DISTURBANCES) this.#disturb(pick(this.#random, ids))
      const outage = this.#random() < OUTAGES
      if (outage) this.#losePool()
      // Edits of one burst arrive while the passes of the earlier ones are at any point.
      for (let burst = 1 + Math.floor(this.#random() * 3); burst > 0; burst -= 1) await this.#edit()
      await this.#quiet()
      if (this.#random() < MOVES) this.#moveAll()
      if (this.#random() < REBOOTS) await this.#losePower()
      if (this.#random() < CLOCK_SETS) this.clock.set(pick(this.#random, SETS_MS))
      if (this.#life?.chaos.dead === true) {
        this.crashes += 1
        this.#excuse()
        await this.#boot(this.#odds)
      }
      this.clock.advance(Math.floor(this.#random() * 5000))
      if (!outage) continue
      await this.#quiet()
      this.host.storage.setInSight(true)
    }
    // Twice as long as the longest wait of a VM that flaps.
    await this.#heal()
    await this.#heal()
    for (const id of ids) this.#checks.checkAsleepWhereIdle(id)
    for (const id of ids) this.#receive(id)
    for (const id of ids) takeBack(this.#commands(), id)
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
    const acts = actsOf(id, {
      host: this.host,
      clock: this.clock,
      index: ids.indexOf(id),
      request: this.#requestFor(id),
      moveOn: () => this.#moveOn(id),
      receive: () => this.#receive(id),
      stop: (context) => this.#stop(context, id),
      remove: (context) => this.#delete(context, id),
    })
    await this.#boot(calm)
    const life = this.#life
    assert.ok(life !== undefined)
    for (const perform of acts.slice(0, act)) {
      perform(life.commands)
      await this.#quiet()
      this.#checks.checkAtRest(id)
      this.#checks.checkKeptAwake(id)
    }
    life.chaos.restart({ ...calm, dieAt, powerLoss: this.#odds.powerLoss ?? 0 })
    acts[act]?.(life.commands)
    await this.#quiet()
    const died = life.chaos.dead
    await this.#heal(REST_MS)
    this.#checks.checkAtRest(id)
    this.#checks.checkAsleepWhereIdle(id)
    this.#receive(id)
    takeBack(this.#commands(), id)
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
    const store = new Store(this.#directory, { first: 600_000, count: 100 }, flush)
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
    const started = parts.reconciler.start()
    await this.#quiet()
    if (chaos.dead) return
    await started
    parts.source.start()
    const sweep = { store: this.#store, host: chaos.host, log: silentLog }
    void sweepOrphans(sweep, new AbortController().signal)
    await this.#quiet()
  }

  /** Returns what commands need of the present life. */
  #commands(): CommandContext {
    assert.ok(this.#life !== undefined)
    return this.#life.commands
  }

  #requestFor(id: VmId): CreateVm {
    const index = ids.indexOf(id)
    const monitor = this.#odds.monitor ?? (index % 2 === 0 ? 'qemu' : 'firecracker')
    return { ...requestOn(this.host, index), monitor }
  }

  async #edit(): Promise<void> {
    const context = this.#commands()
    const id = pick(this.#random, ids)
    const edits: [() => void, ...(() => void)[]] = [
      () => void createVm(context, id, this.#requestFor(id)),
      () => void createVm(context, id, this.#requestFor(id)),
      () => this.#setPower(context, id, pick(this.#random, POWERS)),
      () => this.#setPower(context, id, pick(this.#random, POWERS)),
      () => this.#receive(id),
      () => this.#receive(id),
      () => this.clock.advance(2000),
      () => {
        const sleepAfterIdleSeconds = pick(this.#random, TIMEOUTS_SECONDS)
        const memoryMib = this.#store.vms.get(id)?.desired.compute.memoryMib ?? COMPUTE.memoryMib
        void setCompute(context, id, { ...COMPUTE, memoryMib, sleepAfterIdleSeconds })
      },
      () => void setPower(context, id, 'running'),
      () => this.#keepAwake(context, id),
      () => this.#reboot(context, id),
      () => void (this.#random() < 0.5 && this.#stopAndGoOn(context, id)),
      () => this.clock.advance(2000),
      () => void setDisk(context, id, { sizeMib: pick(this.#random, SIZES_MIB) }),
      () => void setDisk(context, id, { sizeMib: 128, iopsMax: pick(this.#random, [100, 200]) }),
      () => void setCompute(context, id, { ...COMPUTE, memoryMib: pick(this.#random, [256, 512]) }),
      () => void setNetwork(context, id, networkOf(ids.indexOf(id), pick(this.#random, [10, 20]))),
      () => void setNetwork(context, id, { ipv6Prefix: pick(this.#random, PREFIXES) }),
      () => void rebuildVm(context, id, imageOn(this.host, pick(this.#random, [1, 2]))),
      () => void (this.#random() < 0.3 && this.#delete(context, id)),
      () => offer(context, id, pick(this.#random, EXPIRIES_MS)),
      () => takeBack(context, id),
    ]
    pick(this.#random, edits)()
    for (let turns = Math.floor(this.#random() * MICROTASKS_A_PASS); turns > 0; turns -= 1)
      await Promise.resolve()
  }

  #disturb(id: VmId): void {
    const record = this.#store.vms.get(id)
    this.sleep.excuse(id)
    if (record !== undefined) disturb(this.host, record, this.#random)
  }

  #setPower(context: CommandContext, id: VmId, power: DesiredPower): void {
    if (power === 'stopped') this.#stop(context, id, { graceSeconds: pick(this.#random, GRACES_SECONDS) })
    else void setPower(context, id, power)
  }

  #keepAwake(context: CommandContext, id: VmId): void {
    const forMs = pick(this.#random, KEPT_AWAKE_MS)
    void keepAwake(context, id, forMs === 0 ? undefined : this.clock.now() + forMs)
  }

  #stop(context: CommandContext, id: VmId, terms: StopTerms = {}): void {
    if (setPower(context, id, 'stopped', terms).ok) this.#giveUpOnceFlushed(id)
  }

  #reboot(context: CommandContext, id: VmId): void {
    if (rebootVm(context, id, { graceSeconds: pick(this.#random, GRACES_SECONDS) }).ok)
      this.#giveUpOnceFlushed(id)
  }

  /** Lets the destination go on. A guest that is released is its own from then on. */
  #moveOn(id: VmId): void {
    assert.ok(this.#life !== undefined)
    const asked = moveOn(this.#life.source, this.#store, id)
    if (asked === undefined || this.#store.vms.get(id)?.departure?.stage !== asked) return
    if (asked === 'handing_over') this.seen.handovers += 1
    if (asked === 'released') {
      this.seen.releases += 1
      this.#giveUpOnceFlushed(id)
    }
    this.#excuseHandover(id)
  }

  #moveAll(): void {
    if (this.#life?.chaos.dead === true) return
    for (const id of ids) this.#moveOn(id)
  }

  /** A handover may last longer than a packet is held. */
  #excuseHandover(id: VmId): void {
    const record = this.#store.vms.get(id)
    if (record !== undefined && isHeldBack(record)) this.sleep.excuse(id)
  }

  /** Usually both run before any pass has seen the stop. */
  #stopAndGoOn(context: CommandContext, id: VmId): void {
    this.#stop(context, id)
    void setPower(context, id, pick(this.#random, ['running', 'paused']))
  }

  #delete(context: CommandContext, id: VmId): void {
    if (deleteVm(context, id).ok) this.#giveUpOnceFlushed(id)
  }

  /** The request is answered once the store is flushed. Until then, nothing of the guest may go. */
  #giveUpOnceFlushed(id: VmId): void {
    void this.#store.flushed().then(() => this.sleep.giveUp(id))
  }

  #receive(id: VmId): void {
    const record = this.#store.vms.get(id)
    if (record === undefined) return
    this.sleep.receive(record)
    this.#excuseHandover(id)
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

  /** Lets everything run that does not wait for time. */
  async #quiet(): Promise<void> {
    const idle = this.#life?.reconciler.idle().then(() => true)
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      const done = await Promise.race([idle, setImmediate(false)])
      if (done === true || this.#life?.chaos.dead === true) return
    }
    assert.fail(`passes did not end within ${TURNS_MAX} turns`)
  }

  /** Ends all faults, and lets time pass. */
  async #heal(ms = HEAL_MS): Promise<void> {
    const healed = this.#odds.withoutTraffic === true ? { ...calm, withoutTraffic: true as const } : calm
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
