/** Every change to a VM that a controller can request, on a real host. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call, mutate, setPower, settled } from '../../lab/inside/controller.ts'
import { echo } from '../../lab/inside/first-packets.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { mainPid, sh, unitProperty } from '../../lab/inside/shell.ts'
import { typeInto, untilPrompt } from '../../lab/inside/type-into.ts'
import { until } from '../../lab/inside/until.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'

const VM = 'changes'
const UNIT = `vmhost-${VM}`
const PATH = `/v1/vms/${VM}`
const IPV4 = '192.0.2.50'
const compute = { cpu_millicores: 1000, memory_mib: 256, sleep_after_idle_seconds: 0 }

sharedHost({
  make: async () => {
    await mutate('PUT', PATH, guestRequest({ network: { ipv4_address: IPV4 } }))
    await settled(VM, 'running')
    await until('the guest answers', () => sh('ping', '-c', '1', '-W', '1', IPV4))
  },
})

/** Rules of the guest's device, as `tc` and `nft` show them. */
const device = async (): Promise<string> => /dev (\S+)/.exec(await sh('ip', 'route', 'get', IPV4))?.[1] ?? ''

test('a disk grows under the running guest, which sees it at once', async () => {
  const pid = await mainPid(UNIT)
  await mutate('PUT', `${PATH}/resize`, { ...compute, disk: { size_mib: 160 } })
  const { observed } = await settled(VM, 'running')
  assert.deepEqual(observed.disk, { size_mib: 160, guest_size_mib: 160 })
  assert.equal(await mainPid(UNIT), pid)
})

test('rate limits of the disk are put in force and lifted under the running guest', async () => {
  const pid = await mainPid(UNIT)
  await mutate('PUT', `${PATH}/disk`, { size_mib: 160, iops_max: 200, mib_per_second_max: 20 })
  await settled(VM, 'running')
  await mutate('PUT', `${PATH}/disk`, { iops_max: null, mib_per_second_max: null })
  await settled(VM, 'running')
  assert.equal(await mainPid(UNIT), pid)
})

test('bandwidth and firewall change under the running guest', async () => {
  const pid = await mainPid(UNIT)
  const network = {
    ipv4_address: IPV4,
    bandwidth: { receive_mbit_per_second: 50, transmit_mbit_per_second: 20 },
    firewall: { inbound: [{ protocol: 'tcp', ports: ['80'], sources: ['198.51.100.0/24'] }] },
  }
  await mutate('PUT', `${PATH}/network`, network)
  await settled(VM, 'running')
  const name = await device()
  assert.match(await sh('tc', 'qdisc', 'show', 'dev', name), /50Mbit/)
  assert.match(await sh('nft', 'list', 'table', 'inet', 'vmhostd'), /198\.51\.100\.0\/24/)
  await echo(IPV4)
  await mutate('PUT', `${PATH}/network`, { bandwidth: null, firewall: null })
  await settled(VM, 'running')
  assert.doesNotMatch(await sh('tc', 'qdisc', 'show', 'dev', name), /50Mbit/)
  assert.doesNotMatch(await sh('nft', 'list', 'table', 'inet', 'vmhostd'), /198\.51\.100\.0\/24/)
  assert.equal(await mainPid(UNIT), pid)
})

test('counters report what the kernel and the monitor counted', async () => {
  await sh('ping', '-c', '3', '-i', '0.2', IPV4)
  const { status, body } = await call('GET', `${PATH}/counters`)
  assert.equal(status, 200)
  const { network, disk, cpu } = body as unknown as Record<'network' | 'disk' | 'cpu', Record<string, number>>
  for (const { since } of [network, disk, cpu])
    assert.ok(Date.parse(String(since)) <= Date.now(), String(since))
  assert.ok((cpu['used_ms'] ?? 0) > 0, JSON.stringify(cpu))
  assert.ok((network['received_packets'] ?? 0) >= 3, JSON.stringify(network))
  assert.ok((network['transmitted_packets'] ?? 0) >= 3, JSON.stringify(network))
  assert.ok((disk['read_bytes'] ?? 0) > 0, JSON.stringify(disk))
})

story("a VM changes its shape while it is stopped, within the host's capacity", {
  'a running VM keeps CPU, memory and addresses; a stopped one accepts new ones, which its next start has':
    async () => {
      const bigger = { ...compute, cpu_millicores: 1500, memory_mib: 320 }
      const refused = await call('PUT', `${PATH}/compute`, bigger)
      assert.deepEqual([refused.status, Reflect.get(refused.body, 'code')], [409, 'vm_not_stopped'])
      await setPower(VM, 'stopped')
      await settled(VM, 'stopped')
      await mutate('PUT', `${PATH}/compute`, bigger)
      await mutate('PUT', `${PATH}/network`, { ipv4_address: '192.0.2.51' })
      await mutate('PUT', `${PATH}/resize`, { ...bigger, disk: { size_mib: 192 } })
      await mutate('PUT', `${PATH}/boot`, { kernel_arguments: 'changed.once=1' })
      await mutate('PUT', `${PATH}/seed`, { user_data: '#cloud-config\n# changed once\n' })
      const stopped = await settled(VM, 'stopped')
      assert.deepEqual(stopped.observed.disk, { size_mib: 192 }, 'a stopped disk grows at once')
      assert.doesNotMatch(await sh('ip', 'route', 'show'), /192\.0\.2\.50/, 'another VM can have the address')
      await setPower(VM, 'running')
      const { observed } = await settled(VM, 'running')
      assert.deepEqual(observed.compute, bigger)
      assert.deepEqual(observed.disk, { size_mib: 192, guest_size_mib: 192 })
      assert.equal(await unitProperty(UNIT, 'CPUQuotaPerSecUSec'), '1.500000s')
      assert.match(await sh('ps', '-o', 'args=', '-p', await mainPid(UNIT)), / -smp 2 -m 320M /)
      assert.match(await sh('ps', '-ww', '-o', 'args=', '-p', await mainPid(UNIT)), / changed\.once=1/)
      await until('the guest answers at its new address', () =>
        sh('ping', '-c', '1', '-W', '1', '192.0.2.51'),
      )
      await untilPrompt(VM)
      const seed = await typeInto(
        VM,
        'mount -o ro /dev/vdb /run/seed; cat /run/seed/*-data; umount /run/seed',
      )
      assert.match(seed, /instance-id: "changes-\d+-2"/, 'cloud-init sees another instance')
      assert.match(seed, /# changed once/)
    },
  "a change beyond the host's capacity is refused, and a dry run says so before": async () => {
    const huge = { ...compute, memory_mib: 320, cpu_millicores: 1500, disk: { size_mib: 15_000_000 } }
    for (const query of ['?dry_run=true', '']) {
      const { status, body } = await call('PUT', `${PATH}/resize${query}`, huge)
      assert.deepEqual([status, Reflect.get(body, 'code')], [409, 'insufficient_capacity'])
    }
  },
})
