/** Translation of a source's answers to the domain. The schemas have checked their form. */
import { given } from '../../lib/given.ts'
import { readinessFromWire } from './guest.ts'
import { exitFromWire } from './exit.ts'
import { computeFromWire, diskFromWire, networkFromWire } from './vm-from-wire.ts'
import type { MacAddress, Sha256, VmId } from '../../core/ids.ts'
import type { Desired, Network } from '../../core/desired.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { Manifest, MovingVm } from '../../core/vm/manifest.ts'
import type { SavingMonitor } from '../../core/world/saved-state.ts'
import type { ManifestWire } from './manifest.ts'
import type { HandOverWire, HeldPacketsWire, MovedConsoleWire, MovedMemoryWire } from './moves.ts'
import type { NetworkWire } from './network.ts'

/** Throws if the manifest has a network that no request could ask for. */
export function manifestFromWire(wire: ManifestWire): Manifest {
  const network = wire.network === undefined ? undefined : knownNetwork(wire.network)
  return {
    migrationId: wire.migration_id as MigrationId,
    vmId: wire.vm_id as VmId,
    stage: wire.stage,
    mode: wire.mode,
    power: wire.power,
    monitor: monitorFromWire(wire.monitor),
    processor: { vendor: wire.processor.vendor, features: wire.processor.features },
    compute: computeFromWire(wire.compute),
    disk: diskFromWire(wire.disk),
    ...given({
      network,
      expiresAtMs: wire.expires_at === undefined ? undefined : Date.parse(wire.expires_at),
    }),
    vm: movingFromWire(wire.vm),
  }
}

function movingFromWire(vm: ManifestWire['vm']): MovingVm {
  return {
    desired: desiredFromWire(vm.desired),
    monitor: vm.monitor,
    metadata: { labels: vm.labels, protected: vm.protected },
    createdAtMs: Date.parse(vm.created_at),
    inputs: {
      request: vm.request,
      sshAuthorizedKeys: vm.ssh_authorized_keys,
      ...given({ userData: vm.user_data }),
    },
    daemonSshKey: vm.daemon_ssh_key,
    exitStreak: vm.exit_streak,
    ...given({
      sshHostKey: vm.ssh_host_key,
      lastTrafficAtMs: vm.last_traffic_at === undefined ? undefined : Date.parse(vm.last_traffic_at),
      keepAwakeUntilMs: vm.keep_awake_until === undefined ? undefined : Date.parse(vm.keep_awake_until),
      ended: vm.ended === true || undefined,
    }),
  }
}

function desiredFromWire(desired: ManifestWire['vm']['desired']): Desired {
  const { power, compute, disk, image, network, readiness, instance } = desired
  return {
    power,
    compute: computeFromWire(compute),
    disk: diskFromWire(disk),
    image: {
      rootfsSha256: image.rootfs.sha256 as Sha256,
      kernelSha256: image.kernel.sha256 as Sha256,
      ...given({
        initrdSha256: image.initrd?.sha256 as Sha256 | undefined,
        kernelArguments: image.kernel_arguments,
        rebuild: image.rebuild,
      }),
    },
    ...given({
      network: network && knownNetwork(network),
      readiness: readiness && readinessFromWire(readiness),
      exit: exitFromWire(desired),
      instance,
    }),
  }
}

function knownNetwork(wire: NetworkWire): Network {
  const complaints: Parameters<typeof networkFromWire>[2] = []
  const network = networkFromWire(wire, '/network', complaints)
  const [wrong] = complaints
  if (wrong !== undefined)
    throw new Error(`the manifest has a network whose ${wrong.pointer} ${wrong.detail}`)
  return { ...network, macAddress: wire.mac_address as MacAddress }
}

const monitorFromWire = ({
  program,
  version,
  accelerator,
  format,
  form,
}: ManifestWire['monitor']): SavingMonitor => ({
  program,
  version,
  accelerator,
  ...given({ format }),
  form,
})

const memoryFromWire = ({ length_bytes, saved_at, monitor, compute }: MovedMemoryWire) => ({
  lengthBytes: length_bytes,
  terms: {
    savedAtMs: Date.parse(saved_at),
    monitor: monitorFromWire(monitor),
    compute: { cpuMillicores: compute.cpu_millicores, memoryMib: compute.memory_mib },
  },
})

export const handOverFromWire = ({ stage, last_round, memory }: HandOverWire) => ({
  stage,
  ...given({ lastRound: last_round, memory: memory && memoryFromWire(memory) }),
})

export const consoleFromWire = ({ session, end, window, output }: MovedConsoleWire) => ({
  session,
  end,
  window: { cols: window.columns, rows: window.rows },
  output: Buffer.from(output, 'base64'),
})

export const packetsFromWire = ({ packets }: HeldPacketsWire) =>
  packets.map(({ number, gso_size, age_ms, counts, frame }) => ({
    number,
    gsoSize: gso_size,
    ageMs: age_ms,
    counts,
    frame: Buffer.from(frame, 'base64'),
  }))
