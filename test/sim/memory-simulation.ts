import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { createVm } from '../../src/commands/vm/create-vm.ts'
import { deleteVm } from '../../src/commands/vm/delete-vm.ts'
import { setCompute } from '../../src/commands/vm/reshape.ts'
import { setPower } from '../../src/commands/vm/set-power.ts'
import { keepAwake } from '../../src/commands/vm/wake-vm.ts'
import { Store } from '../../src/store/store.ts'
import { composed } from '../composed.ts'
import { FakeCapacity } from '../fakes/fake-capacity.ts'
import { FakeClock } from '../fakes/fake-clock.ts'
import { FakeHost } from '../fakes/fake-host.ts'
import { calm, Chaos } from './chaos.ts'
import { MemoryWatch } from './memory-watch.ts'
import { mortalStore } from './mortal-store.ts'
import { pick, randomFrom } from './random.ts'
import { HEAL_MS, TURNS_MAX } from './rates.ts'
import { requestOn } from './requests.ts'
import { SleepWatch } from './sleep-watch.ts'
import type { CommandContext } from '../../src/commands/context.ts'
import type { Compute } from '../../src/core/desired.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'
import type { Composition } from '../../src/daemon/compose.ts'
import type { Odds } from './chaos.ts'

const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] as string[] as [VmId, ...VmId[]]
/** Memory that VMs may have: two or three of them at a time. */
const MEMORY_MIB = 700
const MONITOR_MIB = 20
const SIZES_MIB: [number, ...number[]] = [128, 256, 512]
const RATIOS: [number, ...number[]] = [0, 0, 0.25]
const TIMEOUTS_SECONDS: [number, ...number[]] = [0, 4, 4, 8, 20, 20]
const KEPT_AWAKE_MS: [number, ...number[]] = [0, 8000, 40_000]
/** Share of VMs whose memory stays promised while they sleep. */
const GUARANTEES = 0.1
/** Time in which most VMs fall asleep. */
const IDLE_MS = 9000
/** Time from one edit to the next. */
const PAUSE_MS = 4000
/** Pause between two looks at a VM that should wake. */
const STEP_MS = 1000

type Life = { readonly chaos: Chaos } & Composition

/** The daemon on a host with less memory than its VMs, which sleep and wake. One seed is one history. */
export class MemorySimulation {
  readonly clock: FakeClock
  readonly host: FakeHost
  readonly watch: MemoryWatch
  readonly sleep: SleepWatch
  readonly #random: () => number
  readonly #directory: string
  readonly #store: Store
  readonly #capacity = new FakeCapacity()
  #odds: Odds
  #life: Life | undefined
  #violation: unknown
  /** Deaths of the daemon while VMs waited. */
  deaths = 0

  constructor(seed: number, odds: Odds) {
    this.#random = randomFrom(seed)
    this.#odds = odds
    this.clock = new FakeClock({ random: this.#random })
    this.#directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'vmhostd-mem-'))
    this.#store = new Store(this.#directory, { first: 600_000, count: 100 }, { datasync: async () => {} })
    this.host = new FakeHost(this.clock, this.#store.storeId)
    this.#capacity.total.memoryMib = MEMORY_MIB
    this.#capacity.monitor = MONITOR_MIB
    this.#capacity.sleepRatio = pick(this.#random, RATIOS)
    const onViolation = (violation: unknown): void => {
      this.#violation ??= violation
    }
    this.watch = new MemoryWatch(
      { host: this.host, store: this.#store, capacity: this.#capacity },
      onViolation,
    )
    this.sleep = new SleepWatch({ host: this.host, recordOf: (id) => this.#store.vms.get(id), onViolation })
  }

  /** Runs random edits and time, with faults. Then these stop, and every VM must be able to wake in its turn. */
  async run(edits: number): Promise<void> {
    await this.#boot()
    for (let edit = 0; edit < edits; edit += 1) {
      for (let burst = 1 + Math.floor(this.#random() * 4); burst > 0; burst -= 1)
        this.#edit(pick(this.#random, ids))
      await this.#settle()
      this.clock.advance(Math.floor(this.#random() * PAUSE_MS))
      await this.#settle()
    }
    this.#odds = calm
    if (this.#life !== undefined) this.#life.chaos.odds = calm
    for (const id of this.#store.vms.ids()) this.#share(id)
    await this.#pass(HEAL_MS)
    for (const id of this.#store.vms.ids()) await this.#wake(id)
    await this.#pass(HEAL_MS)
    assert.deepEqual(this.#store.memoryLoans.queue(), [], 'VMs wait for memory that is free')
    this.sleep.check(ids)
  }

  close(): void {
    this.#store.close()
    rmSync(this.#directory, { recursive: true })
  }

  async #boot(): Promise<void> {
    const chaos = new Chaos(this.host, this.#odds, this.#random)
    const parts = composed({
      store: mortalStore(this.#store, chaos),
      host: chaos.host,
      instead: { capacity: this.#capacity },
    })
    this.#life = { chaos, ...parts }
    const started = parts.reconciler.start()
    await this.#quiet()
    if (!chaos.dead) await started
  }

  /** Acts as a controller, whose requests the daemon must not lose once they are accepted. */
  get #context(): CommandContext {
    assert.ok(this.#life !== undefined)
    return { ...this.#life.commands, store: this.#store }
  }

  #edit(id: VmId): void {
    const context = this.#context
    const edits: [() => unknown, ...(() => unknown)[]] = [
      () => this.#create(id),
      () => this.#create(id),
      () => this.#receive(id),
      () => this.#receive(id),
      () => ids.map((each) => this.#receive(each)),
      () => ids.map((each) => this.#receive(each)),
      () => this.clock.advance(IDLE_MS),
      () => this.clock.advance(IDLE_MS),
      () => this.#keepAwake(id),
      () => this.#keepAwake(id),
      () => setPower(context, id, 'running'),
      () => this.#stop(id),
      () => this.#shape(id),
      () => this.#random() < 0.3 && this.#delete(id),
    ]
    pick(this.#random, edits)()
  }

  #create(id: VmId): void {
    const index = ids.indexOf(id)
    const request = requestOn(this.host, index)
    const monitor = index % 2 === 0 ? 'qemu' : 'firecracker'
    createVm(this.#context, id, { ...request, monitor, compute: this.#compute() })
  }

  #compute(memoryMib = pick(this.#random, SIZES_MIB)): Compute {
    const sleepAfterIdleSeconds = pick(this.#random, TIMEOUTS_SECONDS)
    const wake = this.#random() < GUARANTEES ? ({ wake: 'guaranteed' } as const) : {}
    return { cpuMillicores: 1000, memoryMib, sleepAfterIdleSeconds, ...wake }
  }

  #shape(id: VmId): void {
    const record = this.#store.vms.get(id)
    if (record === undefined) return
    // The memory of a VM changes while it is stopped.
    const sizes: [number, ...number[]] = [...SIZES_MIB, MEMORY_MIB]
    const memoryMib = record.observed.state === 'stopped' ? pick(this.#random, sizes) : undefined
    setCompute(this.#context, id, {
      wake: null,
      ...this.#compute(memoryMib ?? record.desired.compute.memoryMib),
    })
  }

  /** Lets the VM sleep and lend its memory, so that others have it in the end. */
  #share(id: VmId): void {
    const { desired } = this.#store.vms.get(id) as VmRecord
    const { wake: _shared, ...compute } = desired.compute
    keepAwake(this.#context, id, undefined)
    this.watch.excuse(id)
    setCompute(this.#context, id, { ...compute, wake: null, sleepAfterIdleSeconds: 4 })
  }

  #keepAwake(id: VmId): void {
    const forMs = pick(this.#random, KEPT_AWAKE_MS)
    keepAwake(this.#context, id, forMs === 0 ? undefined : this.clock.now() + forMs)
    this.watch.excuse(id)
  }

  #stop(id: VmId): void {
    if (!setPower(this.#context, id, 'stopped').ok) return
    this.sleep.giveUp(id)
    this.watch.excuse(id)
  }

  #delete(id: VmId): void {
    if (!deleteVm(this.#context, id).ok) return
    this.sleep.giveUp(id)
    this.watch.forget(id)
  }

  #receive(id: VmId): void {
    const record = this.#store.vms.get(id)
    if (record !== undefined) this.sleep.receive(record)
  }

  /** Checks that a packet brings the guest back, whatever the others do. */
  async #wake(id: VmId): Promise<void> {
    if (this.#store.vms.get(id)?.desired.power !== 'running') return
    this.#receive(id)
    for (let waitedMs = 0; waitedMs < HEAL_MS; waitedMs += STEP_MS) {
      await this.#settle()
      if (this.#store.vms.get(id)?.observed.state === 'running') return
      this.clock.advance(STEP_MS)
    }
    assert.fail(`${id} does not wake: ${JSON.stringify(this.#store.vms.get(id)?.observed)}`)
  }

  /** Lets everything run that does not wait for time, and starts a daemon that died again. */
  async #settle(): Promise<void> {
    await this.#quiet()
    while (this.#life?.chaos.dead === true) {
      if (this.#store.memoryLoans.queue().length > 0) this.deaths += 1
      for (const id of ids) this.sleep.excuse(id)
      await this.#boot()
    }
    this.watch.check(ids)
    if (this.#violation !== undefined) throw this.#violation
  }

  async #pass(ms: number): Promise<void> {
    const untilMs = this.clock.monotonicMs() + ms
    while (this.clock.monotonicMs() < untilMs) {
      await this.#settle()
      this.clock.advance(Math.min(this.clock.nextMs() ?? ms, untilMs - this.clock.monotonicMs()))
    }
    await this.#settle()
  }

  async #quiet(): Promise<void> {
    const idle = this.#life?.reconciler.idle().then(() => true)
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      const done = await Promise.race([idle, setImmediate(false)])
      if (done === true || this.#life?.chaos.dead === true) return
    }
    assert.fail(`passes did not end within ${TURNS_MAX} turns`)
  }
}
