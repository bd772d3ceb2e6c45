import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { ObservedState } from '../../src/core/vm/record.ts'
import type { Answer, ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const path = '/v1/vms/web-1'
const put = (host: ControllerHost, part: string, body: unknown): Promise<Answer> =>
  host.call({ method: 'PUT', path: `${path}${part}`, body })
const create = (host: ControllerHost, changes: object = {}): Promise<Answer> =>
  put(host, '', createBody(changes))
/** Records an observation, as if a pass had made it, with the newest stop carried out. */
const seenAs = ({ store: { vms } }: ControllerHost, state: ObservedState) => {
  const id = 'web-1' as VmId
  const { accepted = 0 } = vms.get(id)?.stops ?? {}
  return vms.recordProgress(id, { observed: { state, sinceMs: 0 }, stopCarriedOut: accepted, nowMs: 1 })
}

const compute = { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 0 }

test('compute answers the accepted value, and refuses CPU and memory of a VM that is not stopped', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const idle = { ...compute, sleep_after_idle_seconds: 600 }
  const accepted = await put(host, '/compute', idle)
  assert.equal(accepted.status, 202)
  assert.deepEqual(accepted.json.desired.compute, idle)
  assertProblem(await put(host, '/compute', { ...idle, memory_mib: 1024 }), 409, 'vm_not_stopped')
  await put(host, '/power', { state: 'stopped' })
  seenAs(host, 'stopped')
  const more = await put(host, '/compute', { ...idle, cpu_millicores: 32_000 })
  assert.equal(more.json.desired.compute.cpu_millicores, 32_000)
})

test('a number that is -0 is 0, and the same request again raises no generation', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host, { compute })
  for (const zero of ['0', '-0', '-0.0', '-1e-400']) {
    const body = JSON.stringify(compute).replace(':0', `:${zero}`)
    assert.equal((await put(host, '/compute', body)).status, 200, zero)
  }
})

test('kernel arguments change while the VM is stopped, a dry run stores nothing, and null removes them', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const body = { kernel_arguments: 'quiet' }
  assertProblem(await put(host, '/boot', body), 409, 'vm_not_stopped')
  await put(host, '/power', { state: 'stopped' })
  seenAs(host, 'stopped')
  assert.equal((await put(host, '/boot?dry_run=true', body)).status, 200)
  const accepted = await put(host, '/boot', body)
  assert.equal(accepted.status, 202)
  assert.equal(accepted.json.desired.image.kernel_arguments, 'quiet')
  const none = await put(host, '/boot', { kernel_arguments: null })
  assert.equal('kernel_arguments' in none.json.desired.image, false)
  assertProblem(await put(host, '/boot', { kernel_arguments: 'a\nb' }), 400, 'invalid_request')
})

test('kernel and initrd change while the VM is stopped, and null removes the initrd', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host, { power: 'stopped' })
  seenAs(host, 'stopped')
  const kernel = { url: 'https://images.example.net/k2?signature=Canary', sha256: 'c'.repeat(64) }
  const initrd = { url: 'https://images.example.net/i2?signature=Canary', sha256: 'd'.repeat(64) }
  const accepted = await put(host, '/boot', { kernel, initrd })
  assert.equal(accepted.status, 202)
  const { image } = accepted.json.desired
  assert.deepEqual([image.kernel, image.initrd], [{ sha256: kernel.sha256 }, { sha256: initrd.sha256 }])
  assert.doesNotMatch(accepted.text, /Canary/)
  const none = await put(host, '/boot', { initrd: null })
  assert.equal('initrd' in none.json.desired.image, false)
  const wrong = await put(host, '/boot', { kernel: { ...kernel, url: 'ftp://a/b' } })
  assertProblem(wrong, 400, 'invalid_request')
})

test('user data and keys change while the VM is stopped, and no answer has them', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const body = { user_data: '#cloud-config\nlocale: C\n', ssh_authorized_keys: ['ssh-ed25519 AAAA me'] }
  assertProblem(await put(host, '/seed', body), 409, 'vm_not_stopped')
  await put(host, '/power', { state: 'stopped' })
  seenAs(host, 'stopped')
  const rehearsed = await put(host, '/seed?dry_run=true', body)
  assert.deepEqual(rehearsed.json.dry_run?.changes, [{ pointer: '/desired/instance', to: 2 }])
  const accepted = await put(host, '/seed', body)
  assert.deepEqual([accepted.status, accepted.json.desired.instance], [202, 2], 'the dry run stored nothing')
  assert.doesNotMatch(rehearsed.text + accepted.text, /locale|AAAA/)
  assert.equal((await put(host, '/seed', body)).status, 200)
  assert.equal((await put(host, '/seed', { user_data: null })).json.desired.instance, 3)
  assertProblem(await put(host, '/seed', { ssh_authorized_keys: ['AAAA'] }), 400, 'invalid_request')
})

test('a rebuild changes the root image of a stopped VM, and a dry run stores nothing', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const rootfs = { url: 'https://images.example.net/second?signature=Canary', sha256: 'c'.repeat(64) }
  const rebuild = (query = '', body: unknown = { rootfs }): Promise<Answer> =>
    host.call({ method: 'POST', path: `${path}/rebuild${query}`, body })
  assertProblem(await rebuild(), 409, 'vm_not_stopped')
  await put(host, '/power', { state: 'stopped' })
  seenAs(host, 'stopped')
  const rehearsed = await rebuild('?dry_run=true')
  assert.deepEqual(
    rehearsed.json.dry_run?.changes.map(({ pointer }: { pointer: string }) => pointer),
    ['/desired/image/rootfs/sha256', '/desired/image/rebuild', '/desired/instance'],
  )
  const accepted = await rebuild()
  assert.equal(accepted.status, 202)
  const { image, instance } = accepted.json.desired
  assert.deepEqual([image.rootfs.sha256, image.rebuild, instance], [rootfs.sha256, 1, 2])
  assert.doesNotMatch(rehearsed.text + accepted.text, /Canary/)
  assert.equal((await rebuild()).status, 200)
  assertProblem(await rebuild('', { rootfs: { ...rootfs, url: 'ftp://a/b' } }), 400, 'invalid_request')
  assertProblem(await rebuild('', {}), 400, 'invalid_request')
})

for (const [name, millicores] of [
  ['below 100', 99],
  ['above 32000', 32_001],
] as const) {
  test(`millicores ${name} are refused by compute and by resize`, async (t) => {
    const host = await startControllerHost(t, pki)
    await create(host)
    const wrong = { ...compute, cpu_millicores: millicores }
    for (const answer of [
      await put(host, '/compute', wrong),
      await put(host, '/resize', { ...wrong, disk: { size_mib: 4096 } }),
    ]) {
      assertProblem(answer, 400, 'invalid_request')
      assert.deepEqual(answer.json.errors, [
        { pointer: '/cpu_millicores', code: 'out_of_range', detail: 'must be between 100 and 32000' },
      ])
    }
  })
}

test('a resize is all or nothing, and its refusal names the shortage and its size', async (t) => {
  const host = await startControllerHost(t, pki)
  Object.assign(host.capacity.total, { memoryMib: 1000, diskMib: 3000 })
  await create(host, { power: 'stopped' })
  await put(host, '/power', { state: 'stopped' })
  seenAs(host, 'stopped')
  const body = { ...compute, memory_mib: 1024, disk: { size_mib: 4096 } }
  const refused = await put(host, '/resize', body)
  assertProblem(refused, 409, 'insufficient_capacity')
  assert.match(refused.json.detail, /memory by 24 MiB .* and of disk by 1096 MiB/)
  const { json } = await host.call({ path })
  assert.deepEqual([json.desired.compute, json.desired.disk], [compute, { size_mib: 2048 }])
  Object.assign(host.capacity.total, { memoryMib: 1024, diskMib: 4096 })
  const accepted = await put(host, '/resize', body)
  assert.equal(accepted.status, 202)
  assert.deepEqual(accepted.json.desired.disk, { size_mib: 4096 })
  assert.equal(accepted.json.desired.compute.memory_mib, 1024)
})

test('a resize to the present values changes nothing, and one of the disk alone is a change of the disk', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host, { compute })
  assert.equal((await put(host, '/resize', { ...compute, disk: { size_mib: 2048 } })).status, 200)
  assert.equal((await put(host, '/resize', { ...compute, disk: { size_mib: 4096 } })).status, 202)
  const events = host.store.events.list({ after: 0, limit: 10, kind: 'vm_requested' })
  assert.deepEqual(
    events.map(({ body }) => 'changes' in body && body.changes),
    [['disk']],
  )
})

test('a disk that would shrink is refused with 422', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const resized = await put(host, '/resize', { ...compute, disk: { size_mib: 2047 } })
  const sized = await put(host, '/disk', { size_mib: 2047 })
  const pointers = [resized, sized].map((answer) => assertProblem(answer, 422, 'disk_shrink').errors)
  const error = { code: 'out_of_range', detail: 'must be at least 2048' }
  assert.deepEqual(pointers, [
    [{ pointer: '/disk/size_mib', ...error }],
    [{ pointer: '/size_mib', ...error }],
  ])
})

test('a network with bandwidth and firewall is returned as it was put, in canonical text', async (t) => {
  const host = await startControllerHost(t, pki)
  const { json } = await create(host)
  const network = {
    ipv4_address: '192.0.2.10',
    bandwidth: { receive_mbit_per_second: 200 },
    firewall: {
      inbound: [
        { protocol: 'tcp', ports: ['22', '8000-8100'], sources: ['192.0.2.0/24', '2001:0db8::/32'] },
        { protocol: 'icmp' },
      ],
      outbound: [
        { action: 'allow', protocol: 'udp', ports: ['53'], destinations: ['2001:0db8::53/128'] },
        { action: 'deny', protocol: 'any' },
      ],
    },
  }
  const { mac_address, ipv6_address } = json.desired.network
  const answer = await put(host, '/network', { ...network, ipv6_address })
  assert.equal(answer.status, 202)
  assert.deepEqual(answer.json.desired.network, {
    ...network,
    mac_address,
    ipv6_address,
    firewall: {
      inbound: [
        { protocol: 'tcp', ports: ['22', '8000-8100'], sources: ['192.0.2.0/24', '2001:db8::/32'] },
        { protocol: 'icmp' },
      ],
      outbound: [
        { action: 'allow', protocol: 'udp', ports: ['53'], destinations: ['2001:db8::53/128'] },
        { action: 'deny', protocol: 'any' },
      ],
    },
  })
  const again = await put(host, '/network', { ...network, ipv6_address })
  assert.equal(again.status, 200)
})

test('an omitted member of a network stays, null removes it, and a dry run shows which', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const limited = { bandwidth: { receive_mbit_per_second: 200 }, firewall: { inbound: [] } }
  const { json } = await put(host, '/network', limited)
  const { network } = json.desired
  assert.deepEqual((await put(host, '/network', { bandwidth: { receive_mbit_per_second: 200 } })).status, 200)

  const tried = await put(host, '/network?dry_run=true', { firewall: null })
  assert.deepEqual(tried.json.dry_run.changes, [
    { pointer: '/desired/network/firewall', from: { inbound: [] } },
  ])
  const answer = await put(host, '/network', { firewall: null, bandwidth: {} })
  const { firewall: _firewall, bandwidth: _bandwidth, ...addresses } = network
  assert.deepEqual(answer.json.desired.network, addresses)
})

test('a prefix comes, changes and goes while the VM is desired running, and a dry run shows it', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const prefixAfter = async (change: object) =>
    (await put(host, '/network', change)).json.desired.network.ipv6_prefix
  assert.equal(await prefixAfter({ ipv6_prefix: '2001:0db8:1::/64' }), '2001:db8:1::/64')
  const tried = await put(host, '/network?dry_run=true', { ipv6_prefix: '2001:db8:2::/64' })
  assert.deepEqual(tried.json.dry_run.changes, [
    { pointer: '/desired/network/ipv6_prefix', from: '2001:db8:1::/64', to: '2001:db8:2::/64' },
  ])
  assert.equal(await prefixAfter({ bandwidth: {} }), '2001:db8:1::/64')
  assert.equal(await prefixAfter({ ipv6_prefix: null }), undefined)
})

test('null removes the bandwidth and each address of a stopped VM, and the host chooses its MAC address', async (t) => {
  const host = await startControllerHost(t, pki)
  const addresses = { ipv4_address: '192.0.2.10', ipv6_address: '2001:db8::10' }
  const given = { ...addresses, mac_address: '02:00:5e:10:00:01' }
  const bandwidth = { receive_mbit_per_second: 200 }
  await create(host, { power: 'stopped', network: { ...given, bandwidth } })
  seenAs(host, 'stopped')
  const networkAfter = async (change: object) => (await put(host, '/network', change)).json.desired.network
  assert.deepEqual(await networkAfter({ bandwidth: null }), given)
  const { ipv4_address: _ipv4, ...withoutIpv4 } = given
  assert.deepEqual(await networkAfter({ ipv4_address: null }), withoutIpv4)
  const { ipv6_address: _ipv6, ...macOnly } = withoutIpv4
  assert.deepEqual(await networkAfter({ ipv6_address: null }), macOnly)
  const { mac_address: chosen, ...rest } = await networkAfter({ mac_address: null })
  assert.notEqual(chosen, given.mac_address)
  assert.deepEqual(rest, {})
})

test('null in the network of a request to create a VM is refused', async (t) => {
  const host = await startControllerHost(t, pki)
  const network = { ipv4_address: '192.0.2.10', firewall: null, mac_address: null }
  const answer = await host.call({ method: 'PUT', path, body: createBody({ network }) })
  assertProblem(answer, 400, 'invalid_request')
  assert.deepEqual(answer.json.errors.map(({ pointer }: { pointer: string }) => pointer).toSorted(), [
    '/network/firewall',
    '/network/mac_address',
  ])
})

test('an impossible network is refused with every finding', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const answer = await put(host, '/network', {
    ipv4_address: '224.0.0.1',
    name_servers: ['192.0.2.53', '169.254.169.253'],
    firewall: {
      inbound: [
        { protocol: 'icmp', ports: ['1'] },
        { protocol: 'tcp', ports: ['90-80', '70000'], sources: ['192.0.2.1/24'] },
      ],
      outbound: [{ action: 'deny', protocol: 'any', ports: ['1'], destinations: ['192.0.2.1/24'] }],
    },
  })
  assertProblem(answer, 400, 'invalid_request')
  assert.deepEqual(
    answer.json.errors.map(({ pointer }: { pointer: string }) => pointer),
    [
      '/ipv4_address',
      '/name_servers/1',
      '/firewall/inbound/0/ports',
      '/firewall/inbound/1/ports/0',
      '/firewall/inbound/1/ports/1',
      '/firewall/inbound/1/sources/0',
      '/firewall/outbound/0/ports',
      '/firewall/outbound/0/destinations/0',
    ],
  )
  assert.match(answer.json.errors[5].detail, /192\.0\.2\.0\/24/, 'it names the network that was meant')
})

test('a host that cannot be inspected promises nothing, and says why', async (t) => {
  const host = await startControllerHost(t, pki)
  host.capacity.fault = {
    known: false,
    code: 'storage_inspection_failed',
    retry: 'backoff',
    message: 'inspecting the pool: its mark is missing',
  }
  const answer = await create(host)
  assertProblem(answer, 503, 'storage_inspection_failed')
  assert.match(answer.json.detail, /its mark is missing/)
  assert.equal((await host.call({ path })).status, 404)
})

test('labels find VMs, and a protected one is not deleted', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host, { labels: { env: 'prod', tier: 'web' }, protected: true })
  await host.call({
    method: 'PUT',
    path: '/v1/vms/web-2',
    body: createBody({ network: undefined, labels: { env: 'prod' } }),
  })
  const found = async (label: string): Promise<string[]> => {
    const { json } = await host.call({ path: `/v1/vms?label=${encodeURIComponent(label)}` })
    return json.items.map((vm: { id: string }) => vm.id)
  }
  assert.deepEqual(await found('env=prod'), ['web-1', 'web-2'])
  assert.deepEqual(await found('env=prod,tier=web'), ['web-1'])
  assert.deepEqual(await found('env=test'), [])
  assertProblem(await host.call({ path: '/v1/vms?label=env' }), 400, 'invalid_request')

  assertProblem(await host.call({ method: 'DELETE', path }), 409, 'vm_protected')
  const labels = { env: 'test' }
  const relabelled = await put(host, '/metadata', { labels })
  assert.deepEqual([relabelled.json.labels, relabelled.json.protected], [labels, true])
  const freed = await put(host, '/metadata', { protected: false })
  assert.equal(freed.status, 202)
  assert.deepEqual([freed.json.labels, freed.json.protected], [labels, false])
  assert.equal(freed.json.generations.desired, 1, 'the host has nothing to do')
  assert.equal((await host.call({ method: 'DELETE', path })).status, 202)
})

for (const [name, labels] of Object.entries({
  'a name with a blank': { 'a b': 'c' },
  'a value with a blank': { a: 'b c' },
  'a value that is not a text': { a: 1 },
})) {
  test(`labels with ${name} are refused`, async (t) => {
    const host = await startControllerHost(t, pki)
    assertProblem(await create(host, { labels }), 400, 'invalid_request')
  })
}

test('a dry run answers the changes and the plan, and stores nothing', async (t) => {
  const host = await startControllerHost(t, pki)
  const made = await put(host, '?dry_run=true', createBody())
  assert.equal(made.status, 200)
  assert.equal(made.json.dry_run.changed, true)
  assert.equal(made.json.dry_run.plan.outcome, 'act')
  assert.match(made.json.dry_run.plan.text, /storage\.ensure-disk/)
  assert.equal((await host.call({ path })).status, 404)
  assert.deepEqual(host.pokes, [])

  await create(host)
  const resized = await put(host, '/resize?dry_run=true', { ...compute, disk: { size_mib: 4096 } })
  assert.deepEqual(resized.json.dry_run.changes, [
    { pointer: '/desired/disk/size_mib', from: 2048, to: 4096 },
  ])
  assert.equal(resized.json.desired.disk.size_mib, 4096)
  assert.equal((await host.call({ path })).json.desired.disk.size_mib, 2048)

  const nothing = await put(host, '/power?dry_run=true', { state: 'running' })
  assert.deepEqual([nothing.json.dry_run.changed, nothing.json.dry_run.changes], [false, []])
  const gone = await host.call({ method: 'DELETE', path: `${path}?dry_run=true` })
  assert.deepEqual(
    gone.json.dry_run.changes.map(({ pointer, to }: { pointer: string; to?: unknown }) => [pointer, to]),
    [['', undefined]],
  )
  assertProblem(await put(host, '/disk?dry_run=true', { size_mib: 1 }), 422, 'disk_shrink')
  assertProblem(await put(host, '/power?dry_run=maybe', { state: 'running' }), 400, 'invalid_request')
})
