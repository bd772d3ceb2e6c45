import { limits } from '../../config/limits.ts'
import type { VmId } from '../ids.ts'
import { vcpusOf } from '../desired.ts'
import { renderKernelArguments } from './kernel-arguments.ts'
import type { Architecture } from './kernel-arguments.ts'
import type { MachineSpec } from './machine-spec.ts'
import { DISK_NODE, throttleOf } from './qemu-state.ts'
import { agentArguments, balloonArguments, restoreArguments } from './qemu-save.ts'
import { MIB } from '../../lib/byte-units.ts'
import type { UnitSpec } from '../unit/unit-spec.ts'

export type Accelerator = 'kvm' | 'tcg'

/** Describes the QEMU of this host. */
export type QemuHost = {
  /** Absolute path. */
  readonly program: string
  readonly accelerator: Accelerator
  readonly architecture: Architecture
  /** A directory below /run. It holds one directory for each guest, which systemd makes for the guest's user. */
  readonly runDirectory: string
  /**
   * Frequency of the host's time stamp counter, which an emulated x86 guest sees as its own; absent if it is not known.
   */
  readonly tscKhz?: number
  /** The kernel can pass packets between a tap and a guest by itself. Only used with KVM. */
  readonly vhostNet?: boolean
}

/**
 * Returns the control socket, in the unit's runtime directory. Below /run/vmhostd/vm it has 88 bytes; sun_path has 108
 * (unix(7)).
 */
export const qmpSocketPath = (runDirectory: string, id: VmId): string => `${runDirectory}/${id}/qmp.sock`

/** Returns the socket of the guest's agent, beside it. */
export const agentSocketPath = (runDirectory: string, id: VmId): string => `${runDirectory}/${id}/agent.sock`

/** Returns the command and the sandbox of one guest. */
export function qemuUnitSpec(machine: MachineSpec, host: QemuHost): UnitSpec {
  const kvm = host.accelerator === 'kvm'
  const readOnlyPaths = [machine.seedPath]
  if (readsKernel(machine, host)) {
    readOnlyPaths.push(machine.kernelPath)
    if (machine.initrdPath !== undefined) readOnlyPaths.push(machine.initrdPath)
  }
  if (machine.restorePath !== undefined) readOnlyPaths.push(machine.restorePath)
  const devices: string[] = []
  if (machine.tap !== undefined) devices.push('/dev/net/tun rw')
  if (kvm) devices.push('/dev/kvm rw')
  if (usesVhost(machine, host)) devices.push('/dev/vhost-net rw')
  return {
    description: `VM ${machine.id}`,
    command: [host.program, ...qemuArguments(machine, host)],
    userId: machine.userId,
    supplementaryGroups: kvm ? ['kvm'] : [],
    ttyPath: machine.ptsPath,
    // RuntimeDirectory= is relative to /run (systemd.exec(5)).
    runtimeDirectory: `${host.runDirectory.replace(/^\/run\//, '')}/${machine.id}`,
    runtimeFiles: [],
    cpuQuotaPercent: machine.compute.cpuMillicores / 10,
    memoryMaxBytes: memoryMaxMib(machine, host) * MIB,
    tasksMax: vcpusOf(machine.compute) + limits.qemuExtraTasks,
    openFilesMax: limits.qemuOpenFiles,
    devices,
    readOnlyPaths,
    readWritePaths: [machine.diskPath, machine.saveDirectory],
    mark: machine.mark,
  }
}

const memoryMaxMib = ({ compute: { memoryMib } }: MachineSpec, { accelerator }: QemuHost): number =>
  memoryMib + qemuMemoryMib(memoryMib, accelerator)

/**
 * Returns the arguments of qemu-system(1), in the order in which a machine is described. Devices are non-transitional:
 * legacy virtio needs I/O ports, and these boards have none.
 */
export function qemuArguments(machine: MachineSpec, host: QemuHost): readonly string[] {
  return [
    ...['-name', `guest=${machine.id},debug-threads=on`],
    ...['-nodefaults', '-no-user-config', '-display', 'none'],
    ...['-sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'],
    ...machineArguments(machine, host),
    ...bootArguments(machine, host),
    ...consoleArguments(),
    ...diskArguments(machine),
    ...seedArguments(machine),
    ...networkArguments(machine, host),
    ...['-object', 'rng-builtin,id=rng', '-device', 'virtio-rng-pci-non-transitional,rng=rng,rombar=0'],
    ...balloonArguments(),
    ...agentArguments(escaped(agentSocketPath(host.runDirectory, machine.id))),
    ...restoreArguments(machine),
    ...['-qmp', `unix:${escaped(qmpSocketPath(host.runDirectory, machine.id))},server=on,wait=off`],
    ...(machine.startPaused || machine.restorePath !== undefined ? ['-S'] : []),
  ]
}

function machineArguments({ compute }: MachineSpec, { accelerator, architecture }: QemuHost): string[] {
  // Without pit, pic or rtc an emulated x86 guest hangs when it calibrates its clock, so microvm keeps its defaults.
  const board = architecture === 'x64' ? 'microvm,pcie=on,acpi=on' : 'virt,gic-version=max'
  // LimitCORE=0 does not apply if the host pipes core dumps to a program (core(5)).
  const withoutDump = `${board},dump-guest-core=off`
  const kvm = accelerator === 'kvm'
  return [
    ...['-M', withoutDump],
    ...['-accel', kvm ? 'kvm' : `tcg,thread=multi,tb-size=${limits.qemuTcgCacheMib}`],
    ...['-cpu', kvm ? 'host' : 'max'],
    ...['-smp', String(vcpusOf(compute)), '-m', `${compute.memoryMib}M`],
  ]
}

/**
 * Returns whether the monitor reads the kernel. A restored guest has its kernel in its memory, and never boots. On x86,
 * where nothing else of the board depends on it, the monitor need not read it again. This saves 3 to 6 ms of a wake, or
 * a disk read if it is not in the page cache.
 */
const readsKernel = ({ restorePath }: MachineSpec, { architecture }: QemuHost): boolean =>
  restorePath === undefined || architecture !== 'x64'

/**
 * Returns the arguments of a boot. A guest that reboots ends its monitor, so that the daemon, not the guest, decides
 * what starts again.
 */
function bootArguments(machine: MachineSpec, host: QemuHost): string[] {
  const { accelerator, architecture, tscKhz } = host
  if (!readsKernel(machine, host)) return ['-no-reboot']
  const { id, tap, kernelArguments: own } = machine
  const ipv4Address = tap?.ipv4Address
  const line = renderKernelArguments({
    id,
    architecture,
    own,
    ...(ipv4Address === undefined ? {} : { ipv4Address }),
    // Otherwise the guest measures it against the PIT. That fails when its vCPU has to wait for the host or for its
    // quota, and then the guest hangs, because this board has no other timer.
    ...(accelerator === 'kvm' || tscKhz === undefined ? {} : { tscKhz }),
  })
  const initrd = machine.initrdPath === undefined ? [] : ['-initrd', machine.initrdPath]
  return ['-kernel', machine.kernelPath, ...initrd, '-append', line, '-no-reboot']
}

/**
 * Connects standard input and output to the console pty. Without `signal=off`, a Ctrl-C on the console would end the
 * monitor.
 */
const consoleArguments = (): string[] => [
  ...['-chardev', 'stdio,id=console,signal=off'],
  ...['-serial', 'chardev:console'],
]

/**
 * Attaches a raw file as a virtio disk. It bypasses the page cache (`cache.direct`), because its pages would count
 * against the unit's memory a second time. It uses worker threads: Linux AIO blocks the monitor when a sparse or cloned
 * file allocates, and io_uring goes around the unit's filter of system calls (docs/adr/0027).
 *
 * It is a `-drive`, not a `-blockdev`, because only a `-drive` has limits of its own. They are in force from the first
 * request, can be changed and lifted while the guest runs, and cost a guest without limits nothing. Every request would
 * pass a filter node.
 *
 * A write that finds the pool full stops the guest, and is repeated when the guest resumes, so the guest never notices.
 * Any other error goes to the guest, as on a broken disk. Such an error mostly lasts: a guest that gets it can fail
 * over or continue read-only, while a stopped guest could only be ended (qemu-system(1), -drive werror=; QEMU's own
 * default, which libvirt and software built on it leave unchanged). The default is still set here, because we rely on
 * it.
 */
function diskArguments({ diskPath, diskLimits }: MachineSpec): string[] {
  const { iopsTotal, bpsTotal } = throttleOf(diskLimits)
  const options = [
    `if=none,id=${DISK_NODE}-drive,node-name=${DISK_NODE},driver=raw`,
    `cache.direct=on,discard=unmap,file.driver=file,file.aio=threads,file.filename=${escaped(diskPath)}`,
    ...(iopsTotal === 0 ? [] : [`throttling.iops-total=${iopsTotal}`]),
    ...(bpsTotal === 0 ? [] : [`throttling.bps-total=${bpsTotal}`]),
  ]
  return [
    ...['-drive', options.join(',')],
    ...['-device', `virtio-blk-pci-non-transitional,drive=${DISK_NODE}-drive,werror=enospc,rerror=report`],
  ]
}

const seedArguments = ({ seedPath }: MachineSpec): string[] => [
  ...['-blockdev', `driver=file,node-name=seed-file,filename=${escaped(seedPath)},read-only=on`],
  ...['-blockdev', 'driver=raw,node-name=seed,file=seed-file,read-only=on'],
  ...['-device', 'virtio-blk-pci-non-transitional,drive=seed'],
]

/**
 * Only with KVM: an emulated guest is too slow to gain from it, and it is a part of the kernel that a monitor otherwise
 * cannot reach. It does not change what a saved guest needs.
 */
const usesVhost = ({ tap }: MachineSpec, { accelerator, vhostNet = false }: QemuHost): boolean =>
  tap !== undefined && accelerator === 'kvm' && vhostNet

/** The tap is made beforehand and belongs to the unit's user, so the monitor needs no privilege to open it. */
function networkArguments(machine: MachineSpec, host: QemuHost): string[] {
  const { tap } = machine
  if (tap === undefined) return []
  const vhost = usesVhost(machine, host) ? 'on' : 'off'
  return [
    ...['-netdev', `tap,id=net,ifname=${tap.device},script=no,downscript=no,vhost=${vhost}`],
    ...['-device', `virtio-net-pci-non-transitional,netdev=net,mac=${tap.guestMac},rombar=0`],
  ]
}

/** Doubles commas, as QEMU requires inside a value (qemu-system(1), -drive file=). */
const escaped = (value: string): string => value.replaceAll(',', ',,')

/** A page table entry takes 8 bytes for each page of 4 KiB. The host keeps one table and the second stage another. */
const GUEST_MIB_A_PAGE_TABLE_MIB = 256

/**
 * Returns the memory in MiB that a QEMU process may use besides its guest's: its unit may have it, and the ledger
 * counts it.
 */
export function qemuMemoryMib(guestMib: number, accelerator: 'kvm' | 'tcg'): number {
  const pageTables = Math.ceil(guestMib / GUEST_MIB_A_PAGE_TABLE_MIB)
  return pageTables + limits.qemuOverheadMib + (accelerator === 'tcg' ? limits.qemuTcgCacheMib : 0)
}
