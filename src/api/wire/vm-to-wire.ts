import { scrub } from '../../log/scrub.ts'
import type { Compute, Desired } from '../../core/vm/desired.ts'
import type { OperationId } from '../../core/vm/ids.ts'
import type { Fault, VmRecord } from '../../core/vm/record.ts'
import type { VmWire } from './vm.ts'

/** The only way from a record to a response. `operationId` is that of the mutation being answered, if it changed something. */
export function vmToWire(record: VmRecord, operationId?: OperationId): VmWire {
  const { observed, generations } = record
  return {
    id: record.id,
    desired: desiredToWire(record.desired),
    observed: {
      state: observed.state,
      ...(generations.observed < generations.desired ? { operation_id: record.operationId } : {}),
      ...(observed.fault === undefined ? {} : faultToWire(observed.fault)),
      ...(observed.compute === undefined ? {} : { compute: computeToWire(observed.compute) }),
      ...(observed.disk === undefined ? {} : { disk: { size_mib: observed.disk.sizeMib } }),
      ...(observed.startedAtMs === undefined ? {} : { started_at: time(observed.startedAtMs) }),
    },
    generations: { desired: generations.desired, observed: generations.observed },
    revision: record.revision,
    created_at: time(record.createdAtMs),
    updated_at: time(record.updatedAtMs),
    ...(operationId === undefined ? {} : { operation_id: operationId }),
  }
}

function desiredToWire({ power, compute, disk, image, network }: Desired): VmWire['desired'] {
  return {
    power,
    compute: computeToWire(compute),
    disk: { size_mib: disk.sizeMib },
    image: {
      rootfs_sha256: image.rootfsSha256,
      kernel_sha256: image.kernelSha256,
      ...(image.initrdSha256 === undefined ? {} : { initrd_sha256: image.initrdSha256 }),
      ...(image.kernelArguments === undefined ? {} : { kernel_arguments: image.kernelArguments }),
    },
    ...(network === undefined
      ? {}
      : {
          network: {
            mac_address: network.macAddress,
            ...(network.ipv4Address === undefined ? {} : { ipv4_address: network.ipv4Address }),
            ...(network.ipv6Address === undefined ? {} : { ipv6_address: network.ipv6Address }),
          },
        }),
  }
}

const computeToWire = (compute: Compute): VmWire['desired']['compute'] => ({
  cpu_millicores: compute.cpuMillicores,
  memory_mib: compute.memoryMib,
  sleep_after_idle_seconds: compute.sleepAfterIdleSeconds,
})

/** A fault's message quotes what tools and servers said, so it passes the scrubber like a log line. */
const faultToWire = (fault: Fault): Pick<VmWire['observed'], 'error' | 'fault'> => ({
  error: scrub(`${fault.step}: ${fault.message}`),
  fault: {
    code: fault.code,
    step: fault.step,
    generation: fault.generation,
    since: time(fault.sinceMs),
    attempt: fault.attempt,
    ...(fault.nextAttemptAtMs === undefined ? {} : { next_attempt_at: time(fault.nextAttemptAtMs) }),
  },
})

/** RFC 3339 in UTC with milliseconds. */
const time = (ms: number): string => new Date(ms).toISOString()
