import { arrivalToWire, departureToWire, offerToWire } from './migration.ts'
import { shownText, time } from './values.ts'
import { guestToWire, readinessToWire } from './guest.ts'
import { exitToWire, exitsToWire } from './exit.ts'
import { sleepToWire } from './sleep.ts'
import { given } from '../../lib/given.ts'
import type {
  InboundRule,
  OutboundRule,
  Bandwidth,
  Compute,
  Desired,
  Disk,
  Network,
} from '../../core/desired.ts'
import type { OperationId } from '../../core/ids.ts'
import type { Fault, MemoryQueuePlace, LastStop, Observed, VmRecord } from '../../core/vm/record.ts'
import type { NetworkWire } from './network.ts'
import type { VmWire } from './vm.ts'

/**
 * The only translation of a record to a response. `operationId` is that of the mutation being answered, if it changed
 * something.
 */
export function vmToWire(record: VmRecord, operationId?: OperationId): VmWire {
  const { observed, generations, departure, arrival } = record
  return {
    id: record.id,
    monitor: record.monitor,
    desired: desiredToWire(record.desired),
    observed: {
      state: observed.state,
      state_since: time(observed.sinceMs),
      ...given({ waiting_for: observed.waitingFor }),
      ...(observed.memoryQueue === undefined ? {} : { memory_queue: queueToWire(observed.memoryQueue) }),
      ...(generations.observed < generations.desired ? { operation_id: record.operationId } : {}),
      ...faultsToWire(observed),
      ...(observed.compute === undefined ? {} : { compute: computeToWire(observed.compute) }),
      ...(observed.disk === undefined || observed.disk.unseen === true
        ? {}
        : { disk: observedDiskToWire(observed.disk) }),
      ...given({ rebuild: observed.rebuild }),
      ...(observed.startedAtMs === undefined ? {} : { started_at: time(observed.startedAtMs) }),
      ...stopsToWire(record),
      ...(departure === undefined ? {} : { migration: departureToWire(departure) }),
      ...(arrival === undefined ? {} : { arrival: arrivalToWire(arrival) }),
      ...sleepToWire(record),
      ...guestToWire(record),
      ...exitsToWire(observed),
    },
    generations: { desired: generations.desired, observed: generations.observed },
    labels: record.metadata.labels,
    protected: record.metadata.protected,
    ...(record.keepAwakeUntilMs === undefined ? {} : { keep_awake_until: time(record.keepAwakeUntilMs) }),
    revision: record.revision,
    created_at: time(record.createdAtMs),
    updated_at: time(record.updatedAtMs),
    ...given({ operation_id: operationId }),
  }
}

const stopsToWire = ({
  stops: { grace },
  observed: { lastStop },
}: VmRecord): Partial<VmWire['observed']> => ({
  ...(grace === undefined ? {} : { stops_hard_at: time(grace.untilMs) }),
  ...(lastStop === undefined ? {} : { last_stop: lastStopToWire(lastStop) }),
})

const lastStopToWire = ({
  atMs,
  kind,
  generation,
}: LastStop): NonNullable<VmWire['observed']['last_stop']> => ({
  at: time(atMs),
  how: kind,
  reason: generation === undefined ? 'host_shutdown' : 'request',
})

export function desiredToWire({
  power,
  compute,
  disk,
  image,
  network,
  readiness,
  exit,
  instance,
  migration,
}: Desired): VmWire['desired'] {
  return {
    power,
    compute: computeToWire(compute),
    disk: diskToWire(disk),
    image: {
      rootfs: { sha256: image.rootfsSha256 },
      kernel: { sha256: image.kernelSha256 },
      ...(image.initrdSha256 === undefined ? {} : { initrd: { sha256: image.initrdSha256 } }),
      ...given({ kernel_arguments: image.kernelArguments, rebuild: image.rebuild }),
    },
    ...(network === undefined ? {} : { network: networkToWire(network) }),
    ...(readiness === undefined ? {} : { readiness: readinessToWire(readiness) }),
    ...exitToWire(exit),
    ...given({ instance }),
    ...(migration === undefined ? {} : { migration: offerToWire(migration) }),
  }
}

export const diskToWire = ({ sizeMib, iopsMax, mibPerSecondMax }: Disk): VmWire['desired']['disk'] => ({
  size_mib: sizeMib,
  ...given({ iops_max: iopsMax, mib_per_second_max: mibPerSecondMax }),
})

const observedDiskToWire = ({ sizeMib, guestSizeMib }: NonNullable<Observed['disk']>) => ({
  size_mib: sizeMib,
  ...given({ guest_size_mib: guestSizeMib }),
})

export function networkToWire(network: Network): NetworkWire {
  const { macAddress, ipv4Address, ipv6Address, ipv6Prefix, bandwidth, nameServers, firewall } = network
  return {
    mac_address: macAddress,
    ...given({ ipv4_address: ipv4Address, ipv6_address: ipv6Address, ipv6_prefix: ipv6Prefix }),
    ...(bandwidth === undefined ? {} : { bandwidth: bandwidthToWire(bandwidth) }),
    ...(nameServers === undefined ? {} : { name_servers: [...nameServers] }),
    ...(firewall === undefined ? {} : { firewall: firewallToWire(firewall) }),
  }
}

const bandwidthToWire = ({ receiveMbitPerSecond: receive, transmitMbitPerSecond: transmit }: Bandwidth) =>
  given({ receive_mbit_per_second: receive, transmit_mbit_per_second: transmit })

const firewallToWire = ({ inbound, outbound }: NonNullable<Network['firewall']>) => ({
  ...(inbound === undefined
    ? {}
    : {
        inbound: inbound.map(({ sources, ...rule }) => ({
          ...trafficToWire(rule),
          ...(sources === undefined ? {} : { sources: [...sources] }),
        })),
      }),
  ...(outbound === undefined
    ? {}
    : {
        outbound: outbound.map(({ action, destinations, ...rule }) => ({
          action,
          ...trafficToWire(rule),
          ...(destinations === undefined ? {} : { destinations: [...destinations] }),
        })),
      }),
})

const trafficToWire = ({ protocol, ports }: Pick<OutboundRule & InboundRule, 'protocol' | 'ports'>) => ({
  protocol,
  ...(ports === undefined
    ? {}
    : { ports: ports.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)) }),
})

export const computeToWire = (compute: Compute): VmWire['desired']['compute'] => ({
  cpu_millicores: compute.cpuMillicores,
  memory_mib: compute.memoryMib,
  sleep_after_idle_seconds: compute.sleepAfterIdleSeconds,
  ...given({ wake: compute.wake }),
})

const queueToWire = ({ place, missingMib, sinceMs }: MemoryQueuePlace) => ({
  place,
  missing_mib: missingMib,
  since: time(sinceMs),
})

/**
 * Returns the fault that keeps the VM from its desired state, then other faults of the last inspection; undefined for a
 * healthy VM.
 */
export function errorToWire({ fault, partialFaults = [] }: Faults): string | undefined {
  const others = partialFaults.filter(
    ({ step, message }) => step !== fault?.step || message !== fault.message,
  )
  const reported = [...(fault === undefined ? [] : [fault]), ...others]
  return reported.length === 0
    ? undefined
    : reported.map(({ step, message }) => `${step}: ${shownText(message)}`).join('; ')
}

type Faults = Pick<Observed, 'fault' | 'partialFaults'>

function faultsToWire({ fault, partialFaults = [] }: Faults): Partial<VmWire['observed']> {
  const error = errorToWire({ ...given({ fault }), partialFaults })
  if (error === undefined) return {}
  return {
    error,
    ...(fault === undefined ? {} : { fault: faultToWire(fault) }),
    ...(partialFaults.length === 0
      ? {}
      : {
          partial_faults: partialFaults.map(({ code, step, message }) => ({
            code,
            step,
            detail: shownText(message),
          })),
        }),
  }
}

export const faultToWire = (fault: Fault): NonNullable<VmWire['observed']['fault']> => ({
  code: fault.code,
  step: fault.step,
  generation: fault.generation,
  since: time(fault.sinceMs),
  attempt: fault.attempt,
  next_attempt_at: time(fault.nextAttemptAtMs),
})
