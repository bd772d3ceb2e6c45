import { setMaintenance } from '../../src/commands/maintenance/set-maintenance.ts'
import { createVm } from '../../src/commands/vm/create-vm.ts'
import { deleteVm } from '../../src/commands/vm/delete-vm.ts'
import { rebuildVm } from '../../src/commands/vm/rebuild-vm.ts'
import { setCompute, setDisk, setNetwork } from '../../src/commands/vm/reshape.ts'
import { rebootVm, setPower } from '../../src/commands/vm/set-power.ts'
import { keepAwake } from '../../src/commands/vm/wake-vm.ts'
import { isHeldBack } from '../../src/core/vm/leaving.ts'
import { actsOf } from './acts.ts'
import { disturb } from './disturb.ts'
import { EXPIRIES_MS, moveOn, offer, takeBack } from './leave.ts'
import { pick } from './random.ts'
import { GRACES_SECONDS, KEPT_AWAKE_MS, MAINTENANCE } from './rates.ts'
import {
  COMPUTE,
  imageOn,
  networkOf,
  POWERS,
  PREFIXES,
  requestOn,
  SIZES_MIB,
  TIMEOUTS_SECONDS,
} from './requests.ts'
import type { CommandContext } from '../../src/commands/context.ts'
import type { DesiredPower } from '../../src/core/desired.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { WantedMaintenance } from '../../src/core/maintenance/maintenance.ts'
import type { MonitorKind } from '../../src/core/monitor/monitor-kind.ts'
import type { CreateVm } from '../../src/core/vm/create.ts'
import type { StopTerms } from '../../src/core/vm/stop.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'
import type { SourceSide } from '../../src/owners/migration/source-side.ts'
import type { Store } from '../../src/store/store.ts'
import type { FakeClock } from '../fakes/fake-clock.ts'
import type { FakeHost } from '../fakes/fake-host.ts'
import type { Act } from './acts.ts'
import type { SleepWatch } from './sleep-watch.ts'

/** The VMs of a history. */
export const ids = ['a', 'b', 'c'] as string[] as [VmId, ...VmId[]]

/** Parts of the daemon that lives now. */
type Life = { readonly commands: CommandContext; readonly source: SourceSide }

export type PlayerOptions = {
  readonly host: FakeHost
  readonly clock: FakeClock
  readonly sleep: SleepWatch
  readonly random: () => number
  /** The monitor of all VMs; without it, each second VM has Firecracker. */
  readonly monitor?: MonitorKind
  /** Returns the store and the daemon of this moment. Both change when the host loses its power. */
  readonly store: () => Store
  readonly life: () => Life
  /** Shuts the host down in the order of a clean shutdown, and boots it. */
  readonly shutDown: () => void
}

/** Plays the controller, the destinations of moves, and those who send packets. */
export class Player {
  readonly #options: PlayerOptions
  readonly seen = { handovers: 0, releases: 0, maintenances: 0 }

  constructor(options: PlayerOptions) {
    this.#options = options
  }

  /** Returns the life of a VM, act by act. */
  actsOf(id: VmId): readonly Act[] {
    const { host, clock, shutDown } = this.#options
    return actsOf(id, {
      host,
      clock,
      index: ids.indexOf(id),
      request: this.#requestFor(id),
      moveOn: () => this.moveOn(id),
      receive: () => this.receive(id),
      stop: (context) => this.#stop(context, id),
      remove: (context) => this.#delete(context, id),
      shutDown,
    })
  }

  /** Makes one random request, or sends a packet. */
  edit(): void {
    const { host, clock, random } = this.#options
    const context = this.#options.life().commands
    const id = pick(random, ids)
    const edits: [() => void, ...(() => void)[]] = [
      () => void createVm(context, id, this.#requestFor(id)),
      () => void createVm(context, id, this.#requestFor(id)),
      () => this.#setPower(context, id, pick(random, POWERS)),
      () => this.#setPower(context, id, pick(random, POWERS)),
      () => this.receive(id),
      () => this.receive(id),
      () => clock.advance(2000),
      () => {
        const sleepAfterIdleSeconds = pick(random, TIMEOUTS_SECONDS)
        const memoryMib = this.#recordOf(id)?.desired.compute.memoryMib ?? COMPUTE.memoryMib
        void setCompute(context, id, { ...COMPUTE, memoryMib, sleepAfterIdleSeconds })
      },
      () => void setPower(context, id, 'running'),
      () => this.#keepAwake(context, id),
      () => this.#reboot(context, id),
      () => void (random() < 0.5 && this.#stopAndGoOn(context, id)),
      () => clock.advance(2000),
      () => void setDisk(context, id, { sizeMib: pick(random, SIZES_MIB) }),
      () => void setDisk(context, id, { sizeMib: 128, iopsMax: pick(random, [null, 100, 200]) }),
      () => void setCompute(context, id, { ...COMPUTE, memoryMib: pick(random, [256, 512]) }),
      () => void setNetwork(context, id, networkOf(ids.indexOf(id), pick(random, [10, 20]))),
      () => void setNetwork(context, id, { ipv6Prefix: pick(random, PREFIXES) }),
      () => void rebuildVm(context, id, imageOn(host, pick(random, [1, 2]))),
      () => void (random() < 0.3 && this.#delete(context, id)),
      () => void (random() < 0.5 && this.maintain(pick(random, MAINTENANCE))),
      () => offer(context, id, pick(random, EXPIRIES_MS)),
      () => takeBack(context, id),
    ]
    pick(random, edits)()
  }

  /** Changes the host behind the daemon's back. */
  disturb(): void {
    const { host, sleep, random } = this.#options
    const id = pick(random, ids)
    const record = this.#recordOf(id)
    sleep.excuse(id)
    if (record !== undefined) disturb(host, record, random)
  }

  /** Sends a packet to the guest. */
  receive(id: VmId): void {
    const record = this.#recordOf(id)
    if (record === undefined) return
    this.#options.sleep.receive(record)
    this.#excuseHandover(id)
    if (this.#options.store().maintenance.get().state === 'drained') this.#options.sleep.excuse(id)
  }

  /** Lets the destination go on. A guest that is released is its own from then on. */
  moveOn(id: VmId): void {
    const asked = moveOn(this.#options.life().source, this.#options.store(), id)
    if (asked === undefined || this.#recordOf(id)?.departure?.stage !== asked) return
    if (asked === 'handing_over') this.seen.handovers += 1
    if (asked === 'released') {
      this.seen.releases += 1
      this.#giveUpOnceFlushed(id)
    }
    this.#excuseHandover(id)
  }

  /** Takes the host out of service, or puts it back. */
  maintain(wanted: WantedMaintenance): void {
    // Packets may wait for longer than they are held.
    for (const id of ids) this.#options.sleep.excuse(id)
    this.seen.maintenances += 1
    setMaintenance(this.#options.life().commands, wanted)
  }

  /** Withdraws the offer of a VM. */
  takeBack(id: VmId): void {
    takeBack(this.#options.life().commands, id)
  }

  #recordOf(id: VmId): VmRecord | undefined {
    return this.#options.store().vms.get(id)
  }

  #requestFor(id: VmId): CreateVm {
    const index = ids.indexOf(id)
    const monitor = this.#options.monitor ?? (index % 2 === 0 ? 'qemu' : 'firecracker')
    return { ...requestOn(this.#options.host, index), monitor }
  }

  #setPower(context: CommandContext, id: VmId, power: DesiredPower): void {
    const { random } = this.#options
    if (power === 'stopped') this.#stop(context, id, { graceSeconds: pick(random, GRACES_SECONDS) })
    else void setPower(context, id, power)
  }

  #keepAwake(context: CommandContext, id: VmId): void {
    const { host, random } = this.#options
    const forMs = pick(random, KEPT_AWAKE_MS)
    void keepAwake(context, id, forMs === 0 ? undefined : host.clock.now() + forMs)
  }

  #stop(context: CommandContext, id: VmId, terms: StopTerms = {}): void {
    if (setPower(context, id, 'stopped', terms).ok) this.#giveUpOnceFlushed(id)
  }

  #reboot(context: CommandContext, id: VmId): void {
    const graceSeconds = pick(this.#options.random, GRACES_SECONDS)
    if (rebootVm(context, id, { graceSeconds }).ok) this.#giveUpOnceFlushed(id)
  }

  /** Usually both run before any pass has seen the stop. */
  #stopAndGoOn(context: CommandContext, id: VmId): void {
    this.#stop(context, id)
    void setPower(context, id, pick(this.#options.random, ['running', 'paused']))
  }

  #delete(context: CommandContext, id: VmId): void {
    if (deleteVm(context, id).ok) this.#giveUpOnceFlushed(id)
  }

  /** The request is answered once the store is flushed. Until then, nothing of the guest may go. */
  #giveUpOnceFlushed(id: VmId): void {
    void this.#options
      .store()
      .flushed()
      .then(() => this.#options.sleep.giveUp(id))
  }

  /** A handover may last longer than a packet is held. */
  #excuseHandover(id: VmId): void {
    const record = this.#recordOf(id)
    if (record !== undefined && isHeldBack(record)) this.#options.sleep.excuse(id)
  }
}
