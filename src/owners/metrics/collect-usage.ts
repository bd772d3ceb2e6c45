import { setImmediate as nextTurn } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { metrics } from '../../core/metrics/catalogue.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { recordsOf } from './collect-vms.ts'
import { gapOf } from './gaps.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Monitors } from '../../ports/monitor.ts'
import type { Firewall, Taps } from '../../ports/network.ts'
import type { Units } from '../../ports/units.ts'
import type { Store } from '../../store/store.ts'
import type { Gap } from './gaps.ts'
import type { Samples } from './samples.ts'

export type UsageSources = {
  readonly store: Store
  readonly units: Pick<Units, 'active' | 'resident' | 'cpuTime'>
  readonly taps: Pick<Taps, 'counters'>
  readonly firewall: Pick<Firewall, 'counters'>
  readonly monitors: Monitors
}

/** Returns the units that run and have a record: others may be of another daemon. */
async function running({ store, units }: UsageSources): Promise<readonly VmId[]> {
  const known = new Set(store.vms.ids())
  return (await units.active()).filter((id) => known.has(id))
}

/** Throws HostFault. */
export async function collectCpu(sources: UsageSources, samples: Samples): Promise<void> {
  const used = await sources.units.cpuTime(await running(sources))
  for (const [vm, microseconds] of used) samples.add(metrics.vmCpuTime, microseconds / 1e6, { vm })
}

/** Throws HostFault. */
export async function collectMemory(sources: UsageSources, samples: Samples): Promise<void> {
  const measured = await sources.units.resident(await running(sources))
  for (const [vm, { anonymousBytes, fileBytes }] of measured) {
    samples.add(metrics.vmResident, anonymousBytes, { vm, kind: 'anonymous' })
    samples.add(metrics.vmResident, fileBytes, { vm, kind: 'file' })
  }
}

/** Collects the traffic of VMs that have a device. Returns the first gap of a VM whose unit runs. */
export async function collectNetwork(sources: UsageSources, samples: Samples): Promise<Gap | undefined> {
  const active = new Set(await running(sources))
  let first: Gap | undefined
  let looks = 0
  for await (const record of recordsOf(sources.store)) {
    if (record.desired.network === undefined) continue
    looks += 1
    if (looks % limits.metricsLinksATurn === 0) await nextTurn()
    const gap = await gapOf(() => addTraffic(sources, record, samples), record.id)
    // A stopped VM has no device.
    if (active.has(record.id)) first ??= gap
  }
  return first
}

async function addTraffic(
  { taps, firewall }: UsageSources,
  { id: vm, host: { device } }: VmRecord,
  samples: Samples,
): Promise<void> {
  const link = await taps.counters(device)
  samples.add(metrics.vmReceivedBytes, link.receivedBytes, { vm })
  samples.add(metrics.vmReceivedPackets, link.receivedPackets, { vm })
  samples.add(metrics.vmTransmittedBytes, link.transmittedBytes, { vm })
  samples.add(metrics.vmTransmittedPackets, link.transmittedPackets, { vm })
  const { receiveDroppedPackets: dropped, receiveLimitedPackets: limited } = link
  samples.add(metrics.vmReceiveDrops, limited, { vm, reason: 'limit' })
  samples.add(metrics.vmReceiveDrops, dropped - limited, { vm, reason: 'not_taken' })
  samples.add(metrics.vmTransmitDrops, link.transmitDroppedPackets, { vm })
  const drops = await firewall.counters(device)
  samples.add(metrics.vmFirewallDrops, drops.spoofedPackets, { vm, reason: 'spoofed' })
  samples.add(metrics.vmFirewallDrops, drops.inboundPackets, { vm, reason: 'inbound' })
}

/**
 * Reads the disk counters of monitors, some at a time. A monitor may answer late or never; it is not asked again until
 * then, and the others do not wait for it.
 */
export class DiskLooks {
  readonly #underWay = new Set<VmId>()

  /** Returns the first gap: a monitor failed, or an earlier question to it is still open. */
  async collect(sources: UsageSources, samples: Samples): Promise<Gap | undefined> {
    const places = new Semaphore(limits.metricsDiskLooksMax)
    const ids = await running(sources)
    const gaps = await Promise.all(
      ids.map(async (id) =>
        this.#underWay.has(id) ? openQuestion(id) : places.run(() => this.#look(sources, id, samples)),
      ),
    )
    return gaps.find((gap) => gap !== undefined)
  }

  async #look({ store, monitors }: UsageSources, vm: VmId, samples: Samples): Promise<Gap | undefined> {
    const record = store.vms.get(vm)
    if (record === undefined) return undefined
    this.#underWay.add(vm)
    try {
      return await gapOf(async () => {
        const disk = await monitors[record.monitor].diskCounters(vm)
        samples.add(metrics.vmReadBytes, disk?.readBytes, { vm })
        samples.add(metrics.vmReads, disk?.readOperations, { vm })
        samples.add(metrics.vmWrittenBytes, disk?.writtenBytes, { vm })
        samples.add(metrics.vmWrites, disk?.writeOperations, { vm })
      }, vm)
    } finally {
      this.#underWay.delete(vm)
    }
  }
}

const openQuestion = (vmId: VmId): Gap => ({
  code: 'open_question',
  because: 'its monitor has not answered an earlier question',
  vmId,
})
