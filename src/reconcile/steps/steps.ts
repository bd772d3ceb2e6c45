import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { guestRuleOf } from '../../core/network/tap.ts'
import { assert } from '../../lib/assert.ts'
import { MIB } from '../../lib/byte-units.ts'
import { given } from '../../lib/given.ts'
import { markOf } from './executor.ts'
import { forgetTraffic } from './forget-traffic.ts'
import { restoreGuest } from './restore-guest.ts'
import { saveGuest } from './save-guest.ts'
import { startUnit } from './start-unit.ts'
import type { Disk, ImageRole } from '../../core/desired.ts'
import type { TapSpec } from '../../core/network/tap.ts'
import type { Step, StepKind } from '../../core/plan/step.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Host } from '../../ports/host.ts'
import type { DiskSpec, ImageBound } from '../../ports/storage.ts'
import type { Executor, StepContext } from './executor.ts'

type Entry<K extends StepKind> = {
  readonly execute: Executor<K>
  /** The step fails after this many milliseconds; {@link limits.stepMs} unless given. */
  readonly deadlineMs?: number | ((record: VmRecord) => number)
}

/** One entry for each step; a step without an entry does not compile. Each comment says what holds after the step. */
const table: { readonly [K in StepKind]: Entry<K> } = {
  // The image is in the pool, has its digest, is not plainly unfit for its role, and the monitor reads it.
  'image.ensure-fetched': {
    execute: async (step, { host, inputs, record, signal }) => {
      const source = inputs.sources.get(step.sha256)
      assert(source !== undefined, `no source for the ${step.role} image`)
      await host.storage.ensureImage(step.sha256, source, signal, boundOf(step.role, record.desired.disk))
      await host.storage.checkImage(step, host.monitors[record.monitor].capabilities.kernelFormats)
    },
    deadlineMs: limits.imageStepMs,
  },

  // The VM has its disk, cloned from the rootfs image, of at least the size asked for.
  'storage.ensure-disk': {
    execute: ({ sizeMib }, { host, record, signal }) =>
      host.storage.ensureDisk(diskOf(host, record, sizeMib), signal),
    deadlineMs: limits.diskCloneMs,
  },
  // The VM's disk is a clone of the image of its last rebuild. The old disk is gone.
  'storage.rebuild-disk': {
    execute: ({ sizeMib }, { host, record, signal }) =>
      host.storage.rebuildDisk(diskOf(host, record, sizeMib), signal),
    deadlineMs: limits.diskCloneMs,
  },
  // The seed disk is what the record renders to.
  'storage.ensure-seed': {
    execute: (_step, { host, record, intent }) =>
      host.storage.ensureSeed(record.id, record.host.userId, intent.seed),
  },
  // Neither disk nor seed of the VM is left.
  'storage.remove-disk': { execute: (_step, { host, record }) => host.storage.remove(record.id) },
  // No start can find a saved state of the guest.
  'storage.remove-saved': { execute: (_step, { host, record }) => host.savedStates.remove(record.id) },

  // The tap is up, with gateway addresses, routes to the guest and permanent neighbours.
  'network.ensure-tap': { execute: async (_step, context) => context.host.taps.ensure(tapOf(context)) },
  // The table is in force and knows the guest.
  'network.ensure-firewall': {
    execute: async (_step, context) => context.host.firewall.ensureGuest(guestRuleOf(tapOf(context))),
  },
  // The running monitor holds the VM's tap again.
  'network.ensure-attached': {
    execute: async ({ mainPid }, context) => context.host.taps.ensureAttached(tapOf(context), mainPid),
  },
  // The VM's device is gone, and its traffic was forgotten before it. A device of another owner stays.
  'network.remove-tap': {
    execute: async (_step, context) => {
      const { host, record } = context
      await forgetTraffic(context)
      await host.taps.remove(record.host.device, record.id)
    },
  },
  // No element of the table names the VM's device.
  'network.remove-firewall': {
    execute: (_step, { host, record }) => host.firewall.removeGuest(record.host.device),
  },

  // The memory of the VM, which it may have lent, is its own, and of no other.
  'memory.ensure-held': {
    execute: async (_step, { memory, record: { id } }) => {
      if (!memory.take(id))
        throw new HostFault('no_memory_free', `another VM took the memory that ${id} needs`)
    },
  },
  // The program counts what goes out of the VM's device.
  'traffic.ensure-watched': {
    execute: (_step, { host, record }) => host.traffic.ensureWatched(record.host),
  },
  // Frames are held for the guest.
  'traffic.ensure-held': {
    execute: (_step, { host, record }) => host.traffic.ensureHeld(record.host),
  },
  // Frames go to the device. Held frames were sent there before them, or were dropped.
  'traffic.ensure-flowing': {
    execute: async ({ deliver }, { host, record, notes }) => {
      notes.delivery = await host.traffic.ensureFlowing(record.host, { deliver })
    },
  },

  // The VM's console master is in systemd's descriptor store, as read back from it.
  'console.ensure-master': {
    execute: async (_step, { host, record }) => void (await host.consoles.ensureMaster(record.id)),
  },
  // The descriptor store holds no master of the VM, and its console session continues without one.
  'console.remove-master': {
    execute: (_step, { host, record }) => host.consoles.removeMaster(record.id),
  },
  // The console session has ended and has no master; its output is kept.
  'console.end-session': { execute: (_step, { host, record }) => host.consoles.endSession(record.id) },
  // Nothing of the VM's console is left.
  'console.remove': { execute: (_step, { host, record }) => host.consoles.remove(record.id) },

  // The unit is active, with the VM's stored console as its terminal.
  'unit.ensure-started': { execute: startUnit },
  // No process of the VM is left, and systemd has forgotten its unit.
  'unit.ensure-stopped': {
    execute: (_step, { host, record, signal }) => host.units.ensureStopped(record.id, signal),
  },

  // The guest's vCPUs run. Its clock was behind by the time that they were stopped.
  'monitor.ensure-running': {
    execute: async (_step, { host, record, signal }) => {
      await host.monitors[record.monitor].ensureRunning(record.id, signal)
      host.monitors[record.monitor].agent.setGuestTime(record.id)
    },
  },
  // The guest's vCPUs are stopped.
  'monitor.ensure-paused': {
    execute: (_step, { host, record, signal }) =>
      host.monitors[record.monitor].ensurePaused(record.id, signal),
  },
  // The guest was asked to end by itself.
  'monitor.ask-to-end': {
    execute: (_step, { host, record, signal }) => host.monitors[record.monitor].askToEnd(record.id, signal),
  },
  // Either the guest is paused and its saved state is published, or the save was undone.
  'monitor.ensure-saved': { execute: saveGuest, deadlineMs: saveMsOf },
  // The monitor has the guest, paused, and its memory is what was written.
  'monitor.ensure-restored': { execute: restoreGuest, deadlineMs: restoreMsOf },
  // The monitor gives the guest a disk of this size.
  'monitor.ensure-disk-size': {
    execute: ({ sizeMib }, { host, record, signal }) =>
      host.monitors[record.monitor].ensureDiskSize(record.id, sizeMib, signal),
  },
  // The monitor holds the disk to these rates.
  'monitor.ensure-disk-limits': {
    execute: (step, { host, record, signal }) =>
      host.monitors[record.monitor].ensureDiskLimits(record.id, step.limits, signal),
  },
}

function diskOf(host: Host, record: VmRecord, sizeMib: number): DiskSpec {
  const { id, desired, observed } = record
  const { rootfsSha256, rebuild } = desired.image
  return {
    id,
    userId: record.host.userId,
    sizeMib,
    rootfsSha256,
    ...given({ rebuild }),
    mark: markOf(host, record),
    adopts: observed.disk !== undefined,
  }
}

/** Runs a step. Throws what its driver throws. */
export function execute(step: Step, context: StepContext): Promise<void> {
  // The table pairs each kind with the executor of that kind. TypeScript cannot follow that through the lookup.
  const run = table[step.kind].execute as (step: Step, context: StepContext) => Promise<void>
  return run(step, context)
}

/** Returns whether a step may take much longer than most: it has a deadline of its own. */
export const isLong = ({ kind }: Step): boolean => {
  const { deadlineMs }: Entry<never> = table[kind]
  return deadlineMs !== undefined
}

/** Returns the milliseconds that a step has. */
export function deadlineMsOf(step: Step, record: VmRecord): number {
  const { deadlineMs = limits.stepMs }: Entry<never> = table[step.kind]
  return typeof deadlineMs === 'number' ? deadlineMs : deadlineMs(record)
}

/** Returns the time for a save, by the memory that the guest was started with. */
function saveMsOf({ launch, desired }: VmRecord): number {
  const { memoryMib } = launch?.compute ?? desired.compute
  return limits.saveMs + memoryMib * limits.saveMsPerMib
}

/**
 * Returns the time for a restore, by the length of the saved memory, or by the guest's memory while that length is
 * unknown.
 */
function restoreMsOf({ observed, desired }: VmRecord): number {
  const mib = observed.savedState?.sizeMib ?? desired.compute.memoryMib
  return limits.restoreMs + mib * limits.restoreMsPerMib
}

/**
 * Returns the bound of an image. A rootfs image becomes a disk. The monitor reads kernel and initrd into the guest's
 * memory.
 */
const boundOf = (role: ImageRole, { sizeMib }: Disk): ImageBound =>
  role === 'rootfs'
    ? { bytesMax: sizeMib * MIB, excess: 'disk_smaller_than_image' }
    : { bytesMax: limits.bootImageBytesMax, excess: 'image_too_large' }

function tapOf({ intent: { tap } }: StepContext): TapSpec {
  assert(tap !== undefined, 'a network step for a VM without network')
  return tap
}
