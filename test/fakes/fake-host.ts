import { isDeepStrictEqual } from 'node:util'
import { given } from '../../src/lib/given.ts'
import { FakeConsoles } from './fake-consoles.ts'
import { FakeDiskRounds } from './fake-disk-rounds.ts'
import { FakeFirewall } from './fake-firewall.ts'
import { FakeIncomingDisks } from './fake-incoming-disks.ts'
import { FakeMonitor } from './fake-monitor.ts'
import { LikeFirecracker } from './like-firecracker.ts'
import { FakeObjectStore } from './fake-object-store.ts'
import { FakeSourceHosts } from './fake-source-hosts.ts'
import { FakeStaging } from './fake-staging.ts'
import { FakeStorage } from './fake-storage.ts'
import { FakeTaps } from './fake-taps.ts'
import { FakeUnits } from './fake-units.ts'
import { FakeSavedStates } from './fake-saved-states.ts'
import { FakeTraffic } from './fake-traffic.ts'
import { SavedFiles } from './saved-files.ts'
import { MIB } from '../../src/lib/byte-units.ts'
import type { UserId, VmId } from '../../src/core/ids.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { Host } from '../../src/ports/host.ts'
import type { FakeDisk } from './fake-staging.ts'
import type { Units } from '../../src/ports/units.ts'

const diskOf = (id: VmId): FakeDisk => ({ content: Buffer.from(`the disk of ${id}`), sizeBytes: 64 * 1024 })

function wholeDisk({ content, sizeBytes }: FakeDisk): Uint8Array {
  const disk = new Uint8Array(sizeBytes)
  disk.set(content)
  return disk
}

/** A whole host in memory, whose parts know of each other what they know on a real one: a unit runs its monitor. */
export class FakeHost implements Host {
  readonly fakeUnits: FakeUnits
  readonly consoles = new FakeConsoles()
  /** Files that monitors save to and restore from, in the pool. */
  readonly savedFiles = new SavedFiles()
  /** The monitor of most VMs of tests. */
  readonly monitor = new FakeMonitor({}, { files: this.savedFiles })
  readonly monitors = {
    qemu: this.monitor,
    firecracker: new LikeFirecracker(this.savedFiles),
  }
  readonly storage = new FakeStorage()
  readonly savedStates = new FakeSavedStates({
    files: this.savedFiles,
    diskOf: (id) => this.storage.disks.get(id)?.sizeMib,
  })
  /** Contents of the VMs' disks; a few bytes if none are given. */
  readonly diskContents = new Map<VmId, FakeDisk>()
  readonly staging = new FakeStaging({ diskOf: (id) => this.#contentOf(id) })
  readonly rounds = new FakeDiskRounds((id) => {
    const disk = this.#contentOf(id)
    return disk && wholeDisk(disk)
  })
  readonly incomingDisks = new FakeIncomingDisks({
    has: (id) => this.storage.disks.has(id),
    isOf: ({ id, mark }) => isDeepStrictEqual(this.storage.disks.get(id)?.note?.mark, mark),
    add: ({ id, userId, mark, rootfsSha256, rebuild }, content) => {
      const note = { mark, ...given({ rootfsSha256, rebuild }) }
      this.storage.disks.set(id, { sizeMib: Math.ceil(content.length / MIB), userId, note })
      this.diskContents.set(id, { content, sizeBytes: content.length })
    },
  })
  readonly sourceHosts = new FakeSourceHosts()
  readonly objectStore: FakeObjectStore
  readonly traffic: FakeTraffic
  readonly taps: FakeTaps
  readonly firewall = new FakeFirewall()
  readonly clock: Clock
  readonly storeId: string
  bootId = 'boot-1'
  sshPublicKey = 'ssh-ed25519 AAAA vmhostd@host-1'
  /** Whether stored consoles outlive a stop of the daemon. */
  descriptorStoreAvailable = true
  /** Units that were ended while their guest was well, in order. */
  readonly ended: VmId[] = []
  readonly units: Units

  /** @param storeId marks taps as belonging to this store */
  constructor(clock: Clock, storeId: string, { objectStore = new FakeObjectStore() } = {}) {
    this.clock = clock
    this.storeId = storeId
    this.objectStore = objectStore
    this.fakeUnits = new FakeUnits({ now: () => clock.now() })
    const monitorOf = (id: VmId): number | undefined => {
      const unit = this.fakeUnits.stateOf(id)
      return unit.kind === 'active' ? unit.mainPid : undefined
    }
    this.taps = new FakeTaps({ storeId, monitorOf })
    const takes = (userId: UserId): boolean =>
      [...this.storage.disks].some(([id, disk]) => disk.userId === userId && monitorOf(id) !== undefined)
    this.traffic = new FakeTraffic({ clock, devices: this.taps.devices, takes })
    this.storage.onRemove = (id) => {
      this.savedStates.forget(id)
      this.rounds.forget(id)
    }
    this.storage.onSight = (inSight) => {
      this.savedStates.setInSight(inSight)
      this.staging.setInSight(inSight)
      this.rounds.setInSight(inSight)
      this.incomingDisks.setInSight(inSight)
    }
    const { fakeUnits, monitors, storage, ended } = this
    const all = Object.values(monitors)
    for (const one of all) one.onExit = (id, status) => fakeUnits.exit(id, status)
    this.units = {
      inspect: (id) => fakeUnits.inspect(id),
      list: (except) => fakeUnits.list(except),
      active: () => fakeUnits.active(),
      resident: (ids) => fakeUnits.resident(ids),
      cpuTime: (ids) => fakeUnits.cpuTime(ids),
      watch: (onChange) => fakeUnits.watch(onChange),
      expectStart: () => fakeUnits.expectStart(),
      forget: (id) => fakeUnits.forget(id),
      async ensureStarted(id, spec, signal) {
        const { kind } = await fakeUnits.inspect(id)
        await fakeUnits.ensureStarted(id, spec, signal)
        if (kind === 'active') return
        all.find((one) => one.runs(spec))?.started(id, spec, storage.disks.get(id)?.sizeMib ?? 0)
      },
      async ensureStopped(id, signal) {
        const unit = await fakeUnits.inspect(id)
        const states = await Promise.all(all.map((one) => one.inspect(id)))
        if (unit.kind === 'active' && states.every(({ kind }) => kind !== 'broken')) ended.push(id)
        await fakeUnits.ensureStopped(id, signal)
        for (const one of all) one.ended(id)
      },
    }
  }

  #contentOf(id: VmId): FakeDisk | undefined {
    return this.storage.disks.has(id) ? (this.diskContents.get(id) ?? diskOf(id)) : undefined
  }

  /** Returns the monitor that has a guest of the VM; QEMU's if none has. */
  monitorOf(id: VmId): FakeMonitor {
    return this.monitors.firecracker.stateOf(id).kind === 'silent' ? this.monitor : this.monitors.firecracker
  }

  /** The host loses its power and starts again: only the content of the pool is left. The daemon died with the host. */
  async reboot(): Promise<void> {
    this.bootId = `${this.bootId}+`
    for (const id of this.storage.disks.keys()) {
      await this.fakeUnits.ensureStopped(id, new AbortController().signal)
      for (const monitor of Object.values(this.monitors)) monitor.ended(id)
    }
    this.consoles.reboot()
    for (const device of [...this.taps.devices.keys()]) this.taps.devices.delete(device)
    this.firewall.flush()
    this.traffic.reboot()
    this.incomingDisks.losePower()
  }
}
