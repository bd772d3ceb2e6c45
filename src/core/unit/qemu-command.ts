import { limits } from '../../config/limits.ts'
import type { VmId } from '../vm/ids.ts'
import { qemuMemoryMib } from '../capacity/monitor-memory.ts'
import { vcpusOf } from '../vm/desired.ts'
import { renderKernelArguments } from './kernel-arguments.ts'
import type { Architecture } from './kernel-arguments.ts'
import type { MachineSpec } from './machine-spec.ts'
import { DISK_NODE, throttleOf } from './qemu-disk.ts'
import { agentArguments, balloonArguments, restoreArguments } from './qemu-save.ts'
import type { UnitSpec } from './unit-spec.ts'

export type Accelerator = 'kvm' | 'tcg'

/** The QEMU of this host. */
export type QemuHost = {
  /** Absolute path. */
  readonly program: string
  readonly accelerator: Accelerator
  readonly architecture: Architecture
  /** Below /run; holds one directory a guest, made by systemd for the guest's user. */
  readonly runDirectory: string
  /** Of the host's time stamp counter, which an emulated x86 guest sees as its own; absent where it is not known. */
  readonly tscKhz?: number
}

/** The control socket, in the unit's runtime directory. Under /run/vmhostd/vm it has 88 bytes; sun_path 108 (unix(7)). */
export const qmpSocketPath = (runDirectory: string, id: VmId): string => `${runDirectory}/${id}/qmp.sock`

/** The socket of the guest's agent, beside it. */
export const agentSocketPath = (runDirectory: string, id: VmId): string => `${runDirectory}/${id}/agent.sock`

/** The command and the sandbox of one guest. */
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
  return {
    description: `VM ${machine.id}`,
    command: [host.program, ...qemuArguments(machine, host)],
    userId: machine.userId,
    supplementaryGroups: kvm ? ['kvm'] : [],
    ttyPath: machine.ptsPath,
    // RuntimeDirectory= is relative to /run (systemd.exec(5)).
    runtimeDirectory: `${host.runDirectory.replace(/^\/run\//, '')}/${machine.id}`,
    cpuQuotaPercent: machine.compute.cpuMillicores / 10,
    memoryMaxBytes: memoryMaxMib(machine, host) * 1024 * 1024,
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
 * The arguments of qemu-system(1), in the order of a machine's story. Devices are non-transitional: legacy virtio wants
 * I/O ports, of which these boards have none to give.
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
    ...networkArguments(machine),
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
  // LimitCORE=0 does not bind a program that the host pipes core dumps to (core(5)).
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
 * A guest that is restored has its kernel in its memory, and never boots. On x86, where nothing else of the board depends
 * on it, the monitor need not read it again: 3 to 6 ms of a wake, or the disk's time where it is not in the page cache.
 */
const readsKernel = ({ restorePath }: MachineSpec, { architecture }: QemuHost): boolean =>
  restorePath === undefined || architecture !== 'x64'

/** A guest that reboots ends its monitor: what comes back is decided by the daemon, not by the guest. */
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
    // Else the guest measures it against the PIT, which fails when its vCPU has to wait for the host or for its quota,
    // and then it hangs: this board has no other timer.
    ...(accelerator === 'kvm' || tscKhz === undefined ? {} : { tscKhz }),
  })
  const initrd = machine.initrdPath === undefined ? [] : ['-initrd', machine.initrdPath]
  return ['-kernel', machine.kernelPath, ...initrd, '-append', line, '-no-reboot']
}

/** Standard input and output are the console pty. Without `signal=off` a Ctrl-C on the console would end the monitor. */
const consoleArguments = (): string[] => [
  ...['-chardev', 'stdio,id=console,signal=off'],
  ...['-serial', 'chardev:console'],
]

/**
 * A raw file as a virtio disk. Past the page cache (`cache.direct`), or its pages would count against the unit's memory
 * a second time; with worker threads, as Linux AIO blocks the monitor where a sparse or cloned file allocates.
 *
 * A `-drive`, not a `-blockdev`, since only that takes limits of its own: they are in force from the first request, are
 * changed and lifted while the guest runs, and cost a guest without limits nothing, where a filter node would be passed
 * by every request.
 *
 * A write that finds the pool full stops the guest, and is made again when the guest goes on: it never learns of it. Any
 * other error is the guest's own to meet, as on a broken disk: it mostly lasts, and a guest that is told can fail over or
 * go on read-only, where one that is stopped could only be ended (qemu-system(1), -drive werror=; QEMU's own default,
 * which libvirt and what is built on it leave as it is). It is said all the same, since we rely on it.
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

/** The tap is made beforehand and belongs to the unit's user, so the monitor needs no privilege to open it. */
function networkArguments({ tap }: MachineSpec): string[] {
  if (tap === undefined) return []
  return [
    ...['-netdev', `tap,id=net,ifname=${tap.device},script=no,downscript=no,vhost=off`],
    ...['-device', `virtio-net-pci-non-transitional,netdev=net,mac=${tap.guestMac},rombar=0`],
  ]
}

/** A comma inside a value is written twice (qemu-system(1), -drive file=). */
const escaped = (value: string): string => value.replaceAll(',', ',,')
