import { limits } from '../../config/limits.ts'
import { MIB } from '../../lib/byte-units.ts'
import { given } from '../../lib/given.ts'
import { vcpusOf } from '../desired.ts'
import type { VmId } from '../ids.ts'
import type { RuntimeFile, UnitSpec } from '../unit/unit-spec.ts'
import { rateLimiterOf } from './firecracker-state.ts'
import { renderKernelArguments } from './kernel-arguments.ts'
import type { Architecture } from './kernel-arguments.ts'
import type { MachineSpec } from './machine-spec.ts'

/** Describes the Firecracker of this host. */
export type FirecrackerHost = {
  /** Absolute path. */
  readonly program: string
  readonly architecture: Architecture
  /** A directory below /run. It holds one directory for each guest, which belongs to the guest's user. */
  readonly runDirectory: string
  /** Whether guests with an IPv4 address can read their metadata from {@link METADATA_ADDRESS}. */
  readonly metadataService: boolean
}

/** The drive that is the guest's disk. */
export const DISK_DRIVE = 'disk'

/** The guest's network device. */
export const NETWORK_INTERFACE = 'net'

/** The address of the metadata service, the same as of EC2. Firecracker answers; no packet to it leaves the guest. */
const METADATA_ADDRESS = '169.254.169.254'

/** The port of vsock on which the agent in a guest listens (`qemu-ga --method=vsock-listen --path=3:1024`). */
export const AGENT_PORT = 1024
/** The guest's own address, which vsock(7) lets begin at 3. */
const GUEST_CID = 3

const CONFIG_FILE = 'config.json'
const METADATA_FILE = 'metadata.json'

/** Returns the paths of one guest in its unit's runtime directory. */
export const firecrackerPaths = (runDirectory: string, id: VmId) => {
  const directory = `${runDirectory}/${id}`
  return {
    directory,
    api: `${directory}/api.sock`,
    agent: `${directory}/agent.sock`,
    config: `${directory}/${CONFIG_FILE}`,
    metadata: `${directory}/${METADATA_FILE}`,
    log: `${directory}/firecracker.log`,
    /** Devices and vCPUs of a guest that is being saved. */
    state: `${directory}/state`,
    /** The same of a guest that is being restored. */
    restoredState: `${directory}/restored-state`,
  }
}

/** Returns the command and the sandbox of one guest. */
export function firecrackerUnitSpec(machine: MachineSpec, host: FirecrackerHost): UnitSpec {
  const paths = firecrackerPaths(host.runDirectory, machine.id)
  const restores = machine.restorePath !== undefined
  const metadata = host.metadataService && machine.tap?.ipv4Address !== undefined
  const kernel = [machine.kernelPath, ...(machine.initrdPath === undefined ? [] : [machine.initrdPath])]
  return {
    description: `VM ${machine.id}`,
    command: [
      host.program,
      ...['--api-sock', paths.api],
      '--enable-pci',
      // Without a file the log would go to the console. What ends a start is on standard error too, in the journal.
      ...['--log-path', paths.log, '--level', 'Error'],
      ...(restores ? [] : ['--config-file', paths.config]),
      // A saved guest has the service, but not its content (Firecracker, docs/mmds/mmds-user-guide.md).
      ...(metadata
        ? ['--metadata', paths.metadata, '--mmds-size-limit', String(limits.firecrackerMetadataBytesMax)]
        : []),
    ],
    userId: machine.userId,
    supplementaryGroups: ['kvm'],
    ttyPath: machine.ptsPath,
    // RuntimeDirectory= is relative to /run (systemd.exec(5)).
    runtimeDirectory: paths.directory.replace(/^\/run\//, ''),
    runtimeFiles: [
      ...(restores ? [] : [jsonFile(CONFIG_FILE, firecrackerConfig(machine, host))]),
      ...(metadata ? [jsonFile(METADATA_FILE, machine.guestMetadata)] : []),
    ],
    cpuQuotaPercent: machine.compute.cpuMillicores / 10,
    memoryMaxBytes: (machine.compute.memoryMib + firecrackerMemoryMib(machine.compute.memoryMib)) * MIB,
    tasksMax: vcpusOf(machine.compute) + limits.firecrackerExtraTasks,
    openFilesMax: limits.firecrackerOpenFiles,
    devices: [...(machine.tap === undefined ? [] : ['/dev/net/tun rw']), '/dev/kvm rw'],
    readOnlyPaths: [
      machine.seedPath,
      ...(machine.restorePath === undefined ? kernel : [machine.restorePath]),
    ],
    readWritePaths: [machine.diskPath, machine.saveDirectory],
    mark: machine.mark,
  }
}

const jsonFile = (name: string, content: object): RuntimeFile => ({
  name,
  content: `${JSON.stringify(content)}\n`,
})

/**
 * Returns the machine as `--config-file` takes it (Firecracker, docs/getting-started.md). The disk is the first drive,
 * and its root is in the kernel's arguments, because they are the same for every monitor. A flush of the guest flushes
 * the file (`Writeback`).
 */
export function firecrackerConfig(machine: MachineSpec, host: FirecrackerHost): object {
  const { id, compute, tap, kernelArguments: own } = machine
  const { architecture } = host
  // A triple fault would end Firecracker with an error; the keyboard controller ends it in order.
  const reboot = 'k'
  const ipv4Address = tap?.ipv4Address
  return {
    'boot-source': {
      kernel_image_path: machine.kernelPath,
      boot_args: renderKernelArguments({ id, architecture, own, reboot, ...given({ ipv4Address }) }),
      ...given({ initrd_path: machine.initrdPath }),
    },
    'machine-config': { vcpu_count: vcpusOf(compute), mem_size_mib: compute.memoryMib },
    drives: [
      {
        ...drive(DISK_DRIVE, machine.diskPath),
        is_read_only: false,
        rate_limiter: rateLimiterOf(machine.diskLimits),
      },
      { ...drive('seed', machine.seedPath), is_read_only: true },
    ],
    'network-interfaces':
      tap === undefined
        ? []
        : [{ iface_id: NETWORK_INTERFACE, guest_mac: tap.guestMac, host_dev_name: tap.device }],
    // Returns memory that the guest frees to the host. The guest is never asked to give up memory that it uses.
    balloon: { amount_mib: 0, deflate_on_oom: true, free_page_reporting: true },
    entropy: {},
    ...(host.metadataService && ipv4Address !== undefined
      ? {
          'mmds-config': {
            version: 'V2',
            ipv4_address: METADATA_ADDRESS,
            network_interfaces: [NETWORK_INTERFACE],
          },
        }
      : {}),
    vsock: { guest_cid: GUEST_CID, uds_path: firecrackerPaths(host.runDirectory, id).agent },
  }
}

const drive = (driveId: string, path: string): object => ({
  drive_id: driveId,
  path_on_host: path,
  is_root_device: false,
  cache_type: 'Writeback',
  io_engine: 'Sync',
})

/** A page table entry takes 8 bytes for each page of 4 KiB. The host keeps one table and the second stage another. */
const GUEST_MIB_A_PAGE_TABLE_MIB = 256

/** Returns the memory in MiB that a Firecracker process may use besides its guest's. */
export const firecrackerMemoryMib = (guestMib: number): number =>
  Math.ceil(guestMib / GUEST_MIB_A_PAGE_TABLE_MIB) + limits.firecrackerOverheadMib
