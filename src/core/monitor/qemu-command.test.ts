import assert from 'node:assert/strict'
import { test } from 'node:test'
import { machineOf } from '../../../test/fakes/machine.ts'
import type { DeviceName, MacAddress, UserId, VmId } from '../ids.ts'
import type { MachineSpec } from './machine-spec.ts'
import { qemuArguments, qemuUnitSpec, qmpSocketPath } from './qemu-command.ts'
import type { QemuHost } from './qemu-command.ts'
import { saveFormOf } from './qemu-save.ts'

const emulated: QemuHost = {
  program: '/usr/bin/qemu-system-x86_64',
  accelerator: 'tcg',
  architecture: 'x64',
  runDirectory: '/run/vmhostd/vm',
}
const accelerated: QemuHost = { ...emulated, accelerator: 'kvm' }

const id = 'web-1' as VmId
const userId = 200_001 as UserId
const machine: MachineSpec = {
  ...machineOf(id),
  userId,
  compute: { cpuMillicores: 1500, memoryMib: 512, sleepAfterIdleSeconds: 0 },
  kernelPath: '/pool/images/kernel',
  initrdPath: '/pool/images/initrd',
  diskPath: '/pool/disks/web-1/disk.raw',
  diskLimits: {},
  seedPath: '/pool/disks/web-1/seed.iso',
  kernelArguments: 'quiet',
  tap: {
    device: 'vmh0001' as DeviceName,
    vmId: id,
    userId,
    guestMac: '52:54:00:12:34:56' as MacAddress,
    ipv4Address: '192.0.2.10',
  },
  ptsPath: '/dev/pts/3',
  startPaused: false,
  saveDirectory: '/pool/disks/web-1/save',
  mark: { storeId: 'store-1', createdAtMs: 1000 },
}

/** Prints one option with its value on each line, for people. */
const printed = (args: readonly string[]): string =>
  args
    .join(' ')
    .replaceAll(/ -(?=[a-zA-Z])/g, '\n-')
    .trim()

const DISKS_AND_REST = `
-chardev stdio,id=console,signal=off
-serial chardev:console
-drive if=none,id=disk-drive,node-name=disk,driver=raw,cache.direct=on,discard=unmap,file.driver=file,file.aio=threads,file.filename=/pool/disks/web-1/disk.raw
-device virtio-blk-pci-non-transitional,drive=disk-drive,werror=enospc,rerror=report
-blockdev driver=file,node-name=seed-file,filename=/pool/disks/web-1/seed.iso,read-only=on
-blockdev driver=raw,node-name=seed,file=seed-file,read-only=on
-device virtio-blk-pci-non-transitional,drive=seed
-netdev tap,id=net,ifname=vmh0001,script=no,downscript=no,vhost=off
-device virtio-net-pci-non-transitional,netdev=net,mac=52:54:00:12:34:56,rombar=0
-object rng-builtin,id=rng
-device virtio-rng-pci-non-transitional,rng=rng,rombar=0
-device virtio-balloon-pci-non-transitional,free-page-reporting=on,deflate-on-oom=on
-device virtio-serial-pci-non-transitional,max_ports=2
-chardev socket,id=agent,path=/run/vmhostd/vm/web-1/agent.sock,server=on,wait=off
-device virtserialport,id=agent,chardev=agent,name=org.qemu.guest_agent.0
-qmp unix:/run/vmhostd/vm/web-1/qmp.sock,server=on,wait=off`

const PREAMBLE = `-name guest=web-1,debug-threads=on
-nodefaults
-no-user-config
-display none
-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
`

test('an emulated x86 guest', () => {
  assert.equal(
    printed(qemuArguments(machine, emulated)),
    `${PREAMBLE}-M microvm,pcie=on,acpi=on,dump-guest-core=off
-accel tcg,thread=multi,tb-size=128
-cpu max
-smp 2
-m 512M
-kernel /pool/images/kernel
-initrd /pool/images/initrd
-append console=ttyS0 root=/dev/vda rw panic=-1 reboot=t ip=192.0.2.10::169.254.0.1:255.255.255.255:web-1::off quiet
-no-reboot${DISKS_AND_REST}`,
  )
})

test('an arm64 guest under KVM', () => {
  const host: QemuHost = { ...accelerated, program: '/usr/bin/qemu-system-aarch64', architecture: 'arm64' }
  assert.equal(
    printed(qemuArguments(machine, host)),
    `${PREAMBLE}-M virt,gic-version=max,dump-guest-core=off
-accel kvm
-cpu host
-smp 2
-m 512M
-kernel /pool/images/kernel
-initrd /pool/images/initrd
-append console=ttyAMA0 root=/dev/vda rw panic=-1 ip=192.0.2.10::169.254.0.1:255.255.255.255:web-1::off quiet
-no-reboot${DISKS_AND_REST}`,
  )
})

test('an emulated guest gets the frequency of its clock if that is known; with KVM it knows', () => {
  const lineOf = (host: QemuHost): string => qemuArguments(machine, { ...host, tscKhz: 2596130 }).join(' ')
  assert.match(lineOf(emulated), / tsc_early_khz=2596130 tsc=reliable /)
  assert.doesNotMatch(lineOf(accelerated), /tsc/)
})

test('with KVM the kernel passes the packets of a guest if it can, and not those of an emulated one', () => {
  const usesVhost = (host: QemuHost, { tap, ...rest }: MachineSpec = machine) => {
    const { command, devices } = qemuUnitSpec({ ...rest, ...(tap && { tap }) }, host)
    return [/vhost=(on|off)/.exec(command.join(' '))?.[1], devices.includes('/dev/vhost-net rw')]
  }
  assert.deepEqual(usesVhost({ ...accelerated, vhostNet: true }), ['on', true])
  assert.deepEqual(usesVhost({ ...accelerated, vhostNet: false }), ['off', false])
  assert.deepEqual(usesVhost({ ...emulated, vhostNet: true }), ['off', false])
  const { tap: _tap, ...alone } = machine
  assert.deepEqual(usesVhost({ ...accelerated, vhostNet: true }, alone), [undefined, false])
})

test('no guest has io_uring: what a monitor asks for through a ring passes no filter of its unit', () => {
  for (const host of [accelerated, emulated])
    assert.match(qemuUnitSpec(machine, host).command.join(' '), /,file\.aio=threads,/)
})

test('a guest without network and initrd has neither in its command', () => {
  const { tap: _tap, initrdPath: _initrdPath, ...bare } = machine
  const args = qemuArguments(bare, emulated)
  assert.ok(!args.includes('-netdev') && !args.includes('-initrd'))
  assert.doesNotMatch(args.join(' '), /virtio-net|ip=/)
})

test('a limited disk is limited from the first request on', () => {
  const lineOf = (diskLimits: MachineSpec['diskLimits']): string =>
    qemuArguments({ ...machine, diskLimits }, emulated).join(' ')
  assert.match(
    lineOf({ iopsMax: 100, mibPerSecondMax: 5 }),
    /disk\.raw,throttling\.iops-total=100,throttling\.bps-total=5242880 -device/,
  )
  assert.match(lineOf({ mibPerSecondMax: 1 }), /disk\.raw,throttling\.bps-total=1048576 -device/)
  assert.doesNotMatch(lineOf({}), /throttling/)
})

test('a guest is started with its vCPUs stopped only if that is requested', () => {
  assert.ok(!qemuArguments(machine, emulated).includes('-S'))
  assert.equal(qemuArguments({ ...machine, startPaused: true }, emulated).at(-1), '-S')
})

const restored: MachineSpec = { ...machine, restorePath: '/pool/disks/web-1/saved/memory' }

test('a saved guest is restored as the monitor starts, and stays paused', () => {
  const args = qemuArguments(restored, emulated)
  const line = args.join(' ')
  assert.match(
    line,
    / -global migration\.mapped-ram=on -global migration\.x-multifd=on -global migration\.multifd-channels=8 -incoming file:\/pool\/disks\/web-1\/saved\/memory /,
  )
  assert.equal(args.at(-1), '-S')
  assert.deepEqual(qemuUnitSpec(restored, emulated).readOnlyPaths, [machine.seedPath, restored.restorePath])
})

test('a saved guest is restored in the same machine', () => {
  const devices = (spec: MachineSpec, host: QemuHost): readonly string[] =>
    qemuArguments(spec, host).filter((_, index, all) => /^-(device|M|cpu|smp|m)$/.test(all[index - 1] ?? ''))
  for (const host of [emulated, { ...accelerated, architecture: 'arm64' as const }]) {
    assert.deepEqual(devices(restored, host), devices(machine, host))
  }
})

test('a restored x86 guest has its kernel in its memory, so the monitor reads none', () => {
  assert.ok(!qemuArguments(restored, emulated).includes('-kernel'))
  assert.ok(qemuArguments(restored, { ...emulated, architecture: 'arm64' }).includes('-kernel'))
})

test('QEMU saves guests as a stream from 8.2 on and mapped from 9.0 on; an unknown version counts as new', () => {
  const versions = ['7.2.19', '8.1.5', '8.2.2', '9.0.0', '10.0.2', undefined]
  const none = undefined
  assert.deepEqual(versions.map(saveFormOf), [none, none, 'stream', 'mapped', 'mapped', 'mapped'])
})

test('a stream is read as one, by a single thread', () => {
  const args = qemuArguments({ ...restored, restoreForm: 'stream' }, emulated).join(' ')
  assert.match(args, / -global migration\.x-events=on -incoming file:\/pool\/disks\/web-1\/saved\/memory /)
})

test('a comma in a path cannot end an option', () => {
  const args = qemuArguments({ ...machine, diskPath: '/pool/a,b=c/disk.raw' }, emulated)
  assert.match(args.join(' '), /file\.filename=\/pool\/a,,b=c\/disk\.raw -device/)
})

test('an emulated guest may use its memory, its page tables, the overhead and the translation cache', () => {
  const spec = qemuUnitSpec(machine, emulated)
  assert.equal(spec.memoryMaxBytes, (512 + 2 + 128 + 128) * 1024 * 1024)
  assert.equal(spec.tasksMax, 2 + 96)
  assert.equal(spec.openFilesMax, 1024)
  assert.equal(spec.cpuQuotaPercent, 150)
})

test('the sandbox of an emulated guest opens the tap and its own files, nothing else', () => {
  const spec = qemuUnitSpec(machine, emulated)
  assert.deepEqual(spec.devices, ['/dev/net/tun rw'])
  assert.deepEqual(spec.supplementaryGroups, [])
  assert.deepEqual(spec.readOnlyPaths, [machine.seedPath, machine.kernelPath, machine.initrdPath])
  assert.deepEqual(spec.readWritePaths, [machine.diskPath, machine.saveDirectory])
  assert.equal(spec.runtimeDirectory, 'vmhostd/vm/web-1')
  assert.equal(spec.ttyPath, '/dev/pts/3')
  assert.deepEqual(spec.mark, { storeId: 'store-1', createdAtMs: 1000 })
})

test('with KVM the guest may open /dev/kvm, by device list and by group, and needs no translation cache', () => {
  const spec = qemuUnitSpec(machine, accelerated)
  assert.deepEqual(spec.devices, ['/dev/net/tun rw', '/dev/kvm rw'])
  assert.deepEqual(spec.supplementaryGroups, ['kvm'])
  assert.equal(spec.memoryMaxBytes, (512 + 2 + 128) * 1024 * 1024)
})

test('the smallest CPU share is a tenth of a core on one vCPU', () => {
  const compute = { ...machine.compute, cpuMillicores: 100 }
  const spec = qemuUnitSpec({ ...machine, compute }, emulated)
  assert.equal(spec.cpuQuotaPercent, 10)
  assert.equal(spec.command[spec.command.indexOf('-smp') + 1], '1')
})

test('the largest CPU share is 32 vCPUs and the quota of 32 cores', () => {
  const compute = { ...machine.compute, cpuMillicores: 32_000 }
  const { command, cpuQuotaPercent } = qemuUnitSpec({ ...machine, compute }, emulated)
  assert.deepEqual([command[command.indexOf('-smp') + 1], cpuQuotaPercent], ['32', 3200])
})

test('the socket of the longest id fits into a socket address', () => {
  const path = qmpSocketPath('/run/vmhostd/vm', 'a'.repeat(63) as VmId)
  assert.ok(Buffer.byteLength(path) < 108)
})
