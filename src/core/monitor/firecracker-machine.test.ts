import assert from 'node:assert/strict'
import { test } from 'node:test'
import { machineOf } from '../../../test/fakes/machine.ts'
import type { DeviceName, MacAddress, UserId, VmId } from '../ids.ts'
import type { TapSpec } from '../network/tap.ts'
import { firecrackerConfig, firecrackerPaths, firecrackerUnitSpec } from './firecracker-machine.ts'
import type { FirecrackerHost } from './firecracker-machine.ts'

const id = 'web-1' as VmId
const tap: TapSpec & { readonly ipv4Address: string } = {
  device: 'vmh0001' as DeviceName,
  vmId: id,
  userId: 200_001 as UserId,
  guestMac: '52:54:00:12:34:56' as MacAddress,
  ipv4Address: '192.0.2.10',
}
const host: FirecrackerHost = {
  program: '/usr/bin/firecracker',
  architecture: 'x64',
  runDirectory: '/run/vmhostd/vm',
  metadataService: false,
}

test('a machine starts from a file in its runtime directory', () => {
  const spec = firecrackerUnitSpec(machineOf(id, { diskLimits: { iopsMax: 100 } }), host)
  assert.equal(
    spec.command.join(' '),
    '/usr/bin/firecracker --api-sock /run/vmhostd/vm/web-1/api.sock --enable-pci' +
      ' --log-path /run/vmhostd/vm/web-1/firecracker.log --level Error' +
      ' --config-file /run/vmhostd/vm/web-1/config.json',
  )
  assert.equal(spec.runtimeDirectory, 'vmhostd/vm/web-1')
  const [file] = spec.runtimeFiles
  assert.equal(file?.name, 'config.json')
  assert.deepEqual(JSON.parse(file?.content ?? ''), {
    'boot-source': {
      kernel_image_path: '/pool/images/kernel',
      boot_args: 'console=ttyS0 root=/dev/vda rw panic=-1 reboot=k',
    },
    'machine-config': { vcpu_count: 1, mem_size_mib: 128 },
    drives: [
      {
        drive_id: 'disk',
        path_on_host: '/pool/disks/web-1/disk.raw',
        is_root_device: false,
        cache_type: 'Writeback',
        io_engine: 'Sync',
        is_read_only: false,
        rate_limiter: { bandwidth: { size: 0, refill_time: 0 }, ops: { size: 100, refill_time: 1000 } },
      },
      {
        drive_id: 'seed',
        path_on_host: '/pool/disks/web-1/seed.iso',
        is_root_device: false,
        cache_type: 'Writeback',
        io_engine: 'Sync',
        is_read_only: true,
      },
    ],
    'network-interfaces': [],
    balloon: { amount_mib: 0, deflate_on_oom: true, free_page_reporting: true },
    entropy: {},
    vsock: { guest_cid: 3, uds_path: '/run/vmhostd/vm/web-1/agent.sock' },
  })
})

test('a guest that is restored has no configuration, and sees its saved file instead of a kernel', () => {
  const spec = firecrackerUnitSpec(machineOf(id, { restorePath: '/pool/disks/web-1/saved/memory' }), host)
  assert.deepEqual(spec.runtimeFiles, [])
  assert.ok(!spec.command.includes('--config-file'))
  assert.deepEqual(spec.readOnlyPaths, ['/pool/disks/web-1/seed.iso', '/pool/disks/web-1/saved/memory'])
  assert.deepEqual(spec.devices, ['/dev/kvm rw'])
})

test('the content of the seed is in a file for the metadata service, also of a guest that is restored', () => {
  const serving = { ...host, metadataService: true }
  for (const restored of [{}, { restorePath: '/pool/disks/web-1/saved/memory' }]) {
    const machine = machineOf(id, { tap, ...restored })
    const { command, runtimeFiles } = firecrackerUnitSpec(machine, serving)
    const at = command.indexOf('--metadata')
    assert.equal(command[at + 1], '/run/vmhostd/vm/web-1/metadata.json')
    const file = runtimeFiles.find(({ name }) => name === 'metadata.json')
    assert.deepEqual(JSON.parse(file?.content ?? ''), machine.guestMetadata)
  }
  const config = firecrackerConfig(machineOf(id, { tap }), serving) as Record<string, unknown>
  assert.deepEqual(config['mmds-config'], {
    version: 'V2',
    ipv4_address: '169.254.169.254',
    network_interfaces: ['net'],
  })
})

test('without the option, and without an IPv4 address, there is no metadata service', () => {
  const { ipv4Address: _ipv4, ...ipv6Only } = tap
  for (const [machine, metadataService] of [
    [machineOf(id, { tap }), false],
    [machineOf(id, { tap: ipv6Only }), true],
    [machineOf(id), true],
  ] as const) {
    const { command, runtimeFiles } = firecrackerUnitSpec(machine, { ...host, metadataService })
    assert.ok(!command.includes('--metadata'))
    assert.deepEqual(
      runtimeFiles.map(({ name }) => name),
      ['config.json'],
    )
    assert.ok(!JSON.stringify(runtimeFiles).includes('mmds'))
  }
})

test('the sandbox has the memory of the guest and of its monitor', () => {
  const spec = firecrackerUnitSpec(machineOf(id), host)
  assert.equal(spec.memoryMaxBytes, (128 + 1 + 32) * 1024 * 1024)
  assert.equal(spec.tasksMax, 1 + 16)
})

test('the longest path of a socket fits into its address', () => {
  const { api, agent } = firecrackerPaths(host.runDirectory, 'x'.repeat(63) as VmId)
  for (const path of [api, agent]) assert.ok(path.length < 100, path)
})
