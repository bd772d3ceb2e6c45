import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { given } from '../../src/lib/given.ts'
import { createVm } from '../../src/commands/vm/create-vm.ts'
import { rebuildVm } from '../../src/commands/vm/rebuild-vm.ts'
import { setExit } from '../../src/commands/vm/reshape.ts'
import { setPower } from '../../src/commands/vm/set-power.ts'
import { deleteVm } from '../../src/commands/vm/delete-vm.ts'
import { offerVm, withdrawOffer } from '../../src/commands/migration/offer-vm.ts'
import { takeVm } from '../../src/commands/migration/take-vm.ts'
import { hasEnded } from '../../src/core/vm/exit-policy.ts'
import { FakeClock } from '../fakes/fake-clock.ts'
import { calm } from './chaos.ts'
import { endGuest } from './disturb.ts'
import { pick, randomFrom } from './random.ts'
import { COMPUTE, requestOn, imageOn } from './requests.ts'
import { SimulatedHost, VM } from './two-hosts.ts'
import type { MigrationId, MigrationMode, NodeName } from '../../src/core/migration/offer.ts'
import type { GuestMemory } from '../fakes/saved-files.ts'
import type { Odds } from './chaos.ts'

const MIGRATION = 'move-1' as MigrationId
const NODE = 'node-2' as NodeName
const EXPIRES_MS = 3_600_000
/** Longer than any back-off, handover or offer. */
const HEAL_MS = 10 * 60_000

/** How the guest lives before it moves. */
export type Life = 'running' | 'sleeping' | 'paused' | 'stopped'

export type MoveOptions = {
  readonly seed: number
  readonly lives: Life
  readonly mode: MigrationMode
  readonly powerLoss: boolean
  /** Whether the VM has a network; absent: it has. */
  readonly hasNetwork?: boolean
  /** Whether the VM is deleted when its guest ends by itself; absent: the guest is started again. */
  readonly endsOnce?: boolean
}

/** One VM, its source, and two hosts with the node certificate that its offer names. */
export class MoveSimulation {
  readonly clock: FakeClock
  readonly random: () => number
  readonly source: SimulatedHost
  readonly destination: SimulatedHost
  /** Another host with the same certificate. */
  readonly stranger: SimulatedHost
  readonly #lives: Life
  readonly #mode: MigrationMode
  readonly #hasNetwork: boolean
  readonly #endsOnce: boolean
  /** The furthest that the guest was seen to be; each write to its disk is numbered by it. */
  #guest: GuestMemory | undefined
  #written = 0
  #sent = 0

  constructor({ seed, lives, mode, powerLoss, hasNetwork = true, endsOnce = false }: MoveOptions) {
    this.random = randomFrom(seed)
    this.clock = new FakeClock({ random: this.random })
    const parts = { clock: this.clock, random: this.random, powerLoss }
    this.source = new SimulatedHost(1, parts)
    this.destination = new SimulatedHost(2, parts)
    this.stranger = new SimulatedHost(3, parts)
    for (const host of [this.destination, this.stranger]) host.connect(this.source, NODE)
    this.#lives = lives
    this.#mode = mode
    this.#hasNetwork = hasNetwork
    this.#endsOnce = endsOnce
  }

  get hosts(): readonly SimulatedHost[] {
    return [this.source, this.destination, this.stranger]
  }

  /** Makes the VM at its source, and lets it live as it is to live. */
  async begin(): Promise<void> {
    for (const host of this.hosts) await host.start(calm)
    const { network, ...rest } = requestOn(this.source.host, 0)
    const request = { ...rest, ...given({ network: this.#hasNetwork ? network : undefined }) }
    const sleepAfterIdleSeconds = this.#lives === 'sleeping' ? 2 : 0
    const power = this.#lives === 'sleeping' ? 'running' : this.#lives
    const compute = { ...COMPUTE, sleepAfterIdleSeconds }
    const created = createVm(this.source.context, VM, {
      ...request,
      power: 'running',
      compute,
      disk: { sizeMib: 1 },
    })
    assert.ok(created.ok)
    await this.quiet()
    this.live()
    if (power !== 'running') setPower(this.source.context, VM, power)
    if (this.#endsOnce)
      assert.ok(setExit(this.source.context, VM, { restartPolicy: 'never', deleteOnExit: true }).ok)
    await this.pass(10_000)
    assert.equal(this.source.record?.observed.state, this.#lives)
  }

  /** Lets the guest at the source end for good. */
  async endGuest(): Promise<void> {
    const { context, host } = this.source
    assert.ok(setExit(context, VM, { restartPolicy: 'never' }).ok)
    endGuest(host, VM, 0)
    await this.pass(1000)
    assert.equal(this.source.record?.observed.state, 'stopped')
  }

  /** Makes the VM's disk at its source again, from another image. */
  async rebuild(): Promise<void> {
    const { context, host } = this.source
    setPower(context, VM, 'stopped')
    await this.pass(1000)
    assert.ok(rebuildVm(context, VM, imageOn(host, 1)).ok)
    await this.pass(1000)
    setPower(context, VM, 'running')
    await this.pass(1000)
  }

  /** Moves the VM to its destination, and gives it the time for that. */
  async move(): Promise<void> {
    this.offer()
    await this.take(this.destination)
    await this.pass(60_000)
  }

  offer(expiresInMs = EXPIRES_MS): void {
    const expiresAtMs = this.clock.now() + expiresInMs
    const offered = offerVm(this.source.context, VM, {
      id: MIGRATION,
      node: NODE,
      mode: this.#mode,
      expiresAtMs,
    })
    assert.ok(offered.ok, JSON.stringify(offered))
  }

  withdraw(): void {
    withdrawOffer(this.source.context, VM)
  }

  /** Asks a host to take the VM, as its route does. */
  async take(host: SimulatedHost): Promise<void> {
    if (host.isDead || host.record !== undefined) return
    const request = { migrationId: MIGRATION, source: this.source.origin }
    const reading = host.arrivals.readOffer({ ...request, refuseMonitor: () => undefined })
    const offered = await this.#within(reading)
    if (offered?.ok !== true || host.isDead || host.record !== undefined) return
    takeVm(host.context, VM, { ...request, ...offered.value })
  }

  /** Returns the value, or undefined if its daemon has died meanwhile. */
  async #within<T>(value: Promise<T>): Promise<T | undefined> {
    for (let turn = 0; turn < 1000; turn += 1) {
      const found = await Promise.race([value, setImmediate(NOT_YET)])
      if (found !== NOT_YET) return found
    }
    return undefined
  }

  /** Lets the guest make progress and write to its disk, on the host that runs it. */
  live(): void {
    this.check()
    for (const { host, runs } of this.hosts) {
      if (!runs) continue
      host.monitor.run(VM)
      const now = host.monitor.memoryOf(VM)
      const before = this.#guest
      if (before?.life === now.life)
        assert.ok(
          now.progress >= before.progress,
          `the guest fell from ${before.progress} to ${now.progress}`,
        )
      this.#guest = now
      this.#written += 1
      host.diskContents.set(VM, { content: Buffer.from(`version ${this.#written}`), sizeBytes: 1024 * 1024 })
    }
  }

  /** Sends the guest a packet through the host. */
  send(host: SimulatedHost): void {
    const { record } = host
    if (record === undefined) return
    this.#sent += 1
    host.host.traffic.receive(record.host.device, { name: `packet ${this.#sent}` })
  }

  /** Checks what must hold at every moment. */
  check(): void {
    const running = this.hosts.filter(({ runs }) => runs)
    assert.ok(running.length <= 1, `the guest runs at ${running.map(({ origin }) => origin).join(' and ')}`)
    const [here] = running
    if (here === undefined) return
    const released = this.source.record?.departure?.stage === 'released'
    if (here === this.source) assert.ok(!released, 'the guest runs at its source, which has released it')
    else assert.equal(here.record?.arrival?.stage, 'released', 'the guest runs where it was not released to')
  }

  /** Lets everything run that does not wait for time. */
  async quiet(): Promise<void> {
    // A pass of one host may be what a course of another waits for.
    for (let round = 0; round < 12; round += 1) {
      for (const host of this.hosts) await host.quiet()
      for (let turn = 0; turn < 10; turn += 1) {
        await setImmediate()
        this.check()
      }
    }
  }

  /** Lets time pass. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.clock.monotonicMs() + ms
    for (;;) {
      await this.quiet()
      const leftMs = untilMs - this.clock.monotonicMs()
      if (leftMs <= 0) return
      this.clock.advance(Math.min(this.clock.nextMs() ?? leftMs, leftMs))
    }
  }

  /** Ends all faults, and lets everything come to rest. */
  async heal(): Promise<void> {
    for (const host of this.hosts) {
      host.host.sourceHosts.isCut = false
      if (host.isDead) await host.start(calm)
      else host.chaos.odds = calm
    }
    await this.pass(HEAL_MS)
  }

  /** Checks that exactly one host has the VM, with its own guest and disk. */
  checkAtRest(): void {
    const { departure } = this.source.record ?? {}
    const [home, ...others] =
      departure?.stage === 'released'
        ? this.hosts.toSorted(
            (a, b) => Number(isAt(b, departure.arrival)) - Number(isAt(a, departure.arrival)),
          )
        : this.hosts
    assert.ok(home !== undefined)
    if (this.source.record === undefined) return this.hosts.forEach(checkEmpty)
    if (departure?.stage === 'released') assert.ok(isAt(home, departure.arrival), 'no host has the VM')
    for (const other of others) checkEmpty(other)
    const { record } = home
    const state = record?.observed.state
    const maySleep = this.#lives === 'sleeping'
    const expected = record !== undefined && hasEnded(record) ? 'stopped' : record?.desired.power
    assert.ok(
      state === expected || (maySleep && state === 'sleeping'),
      `${home.origin}: ${state} ${JSON.stringify(record?.observed.fault)}`,
    )
    // An offer that no host could take stands until it expires.
    if (departure?.stage === 'offered') assert.equal(record?.observed.waitingFor, 'the destination')
    else if (record?.desired.power !== 'stopped')
      assert.equal(record?.generations.observed, record?.generations.desired)
    const content = Buffer.from(home.host.diskContents.get(VM)?.content ?? [])
      .toString()
      .replace(/\0+$/, '')
    assert.equal(
      content,
      this.#written === 0 ? 'version 0' : `version ${this.#written}`,
      "the disk is not the guest's",
    )
  }

  /** Checks that the guest at rest is the one that was seen last, unless its host lost its power while it ran. */
  checkSameGuest(): void {
    const running = this.hosts.find(({ runs }) => runs)
    if (running === undefined || this.#guest === undefined || this.#mode === 'cold') return
    if (this.hosts.some(({ lostPower }) => lostPower)) return
    assert.equal(running.host.monitor.memoryOf(VM).life, this.#guest.life, 'another guest runs')
  }

  async wake(): Promise<void> {
    for (const host of this.hosts) {
      const { record } = host
      if (record?.observed.state === 'sleeping') setPower(host.context, VM, 'running')
    }
    await this.pass(5000)
    this.check()
  }

  /** Deletes the VM at a host that does not have it yet. */
  deleteAt(host: SimulatedHost, { sourceLost = false } = {}): void {
    const { record, isDead } = host
    if (!isDead && record !== undefined && record.arrival?.stage !== 'released')
      deleteVm(host.context, VM, { sourceLost })
  }

  /** Some mishap, or none. */
  async disturb(odds: Odds): Promise<void> {
    const host = pick(this.random, this.hosts as [SimulatedHost, ...SimulatedHost[]])
    const deeds: [() => unknown, ...(() => unknown)[]] = [
      () => host.isDead || host.kill(),
      () => (host.host.sourceHosts.isCut = !host.host.sourceHosts.isCut),
      () => this.clock.set(pick(this.random, [-3_600_000, -30_000, 30_000, 3_600_000])),
      () => this.send(host),
      () => this.send(this.source),
      () => this.take(this.stranger),
      () => (this.random() < 0.4 ? this.withdraw() : undefined),
      () => (this.random() < 0.3 ? this.deleteAt(this.destination) : undefined),
      () => host.host.storage.setInSight(false),
      () => {},
      () => {},
    ]
    await pick(this.random, deeds)()
    await this.quiet()
    for (const one of this.hosts) {
      one.host.storage.setInSight(true)
      if (one.isDead) await one.start(odds)
    }
  }

  async close(): Promise<void> {
    for (const host of this.hosts) host.kill()
    // What is under way ends before the stores are closed.
    for (let turn = 0; turn < 20; turn += 1) await setImmediate()
    for (const host of this.hosts) host.close()
  }
}

const NOT_YET = Symbol('not yet')

const isAt = ({ record }: SimulatedHost, arrival: string | undefined): boolean =>
  record?.arrival?.id === arrival && arrival !== undefined

function checkEmpty({ origin, record, host }: SimulatedHost): void {
  assert.equal(host.fakeUnits.stateOf(VM).kind, 'absent', `${origin}: a unit is left`)
  assert.equal(host.storage.disks.has(VM), false, `${origin}: a disk is left`)
  assert.equal(host.savedStates.metadataOf(VM), undefined, `${origin}: memory is left`)
  if (record?.arrival !== undefined) assert.equal(record.arrival.stage, 'refused', origin)
}
