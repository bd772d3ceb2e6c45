import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage, createRequest } from '../../../test/command-stage.ts'
import { createVm } from './create-vm.ts'
import { resize, setCompute, setDisk, setNetwork, setSeed } from './reshape.ts'
import { setBoot } from './set-boot.ts'
import { setPower } from './set-power.ts'
import type { CreateNetwork, SetNetwork } from '../../core/vm/create.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { MacAddress, OperationId, Sha256 } from '../../core/ids.ts'

const compute = { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 }

test('the idle timeout changes in any state, CPU and memory only while the VM is stopped', (t) => {
  const { context, id, create, accepted, refusal, seenAs } = commandStage(t)
  create()
  accepted(setCompute(context, id, { ...compute, sleepAfterIdleSeconds: 600 }))
  assert.equal(refusal(setCompute(context, id, { ...compute, memoryMib: 512 })).code, 'vm_not_stopped')
  accepted(setPower(context, id, 'stopped'))
  const waits = refusal(setCompute(context, id, { ...compute, cpuMillicores: 2000 }))
  assert.match(
    waits.text,
    /it is still pending: wait until its stop is done; observed\.error says what keeps it$/,
  )
  seenAs('stopped')
  const { record } = accepted(setCompute(context, id, { ...compute, cpuMillicores: 2000 }))
  assert.equal(record.desired.compute.cpuMillicores, 2000)
})

test('a VM that was seen stopped but must run takes no new memory: its start may be under way', (t) => {
  const { context, id, create, refusal, seenAs } = commandStage(t)
  create()
  seenAs('stopped')
  assert.equal(refusal(setCompute(context, id, { ...compute, memoryMib: 512 })).code, 'vm_not_stopped')
})

test('kernel arguments change only while the VM is stopped, and the disk image stays', (t) => {
  const { context, id, create, accepted, refusal, seenAs } = commandStage(t)
  create()
  assert.equal(refusal(setBoot(context, id, { kernelArguments: 'quiet' })).code, 'vm_not_stopped')
  seenAs('sleeping')
  assert.equal(refusal(setBoot(context, id, { kernelArguments: 'quiet' })).code, 'vm_not_stopped')
  accepted(setPower(context, id, 'stopped'))
  seenAs('stopped')
  const { desired, generations } = accepted(setBoot(context, id, { kernelArguments: 'quiet' })).record
  assert.equal(desired.image.kernelArguments, 'quiet')
  assert.equal(accepted(setBoot(context, id, { kernelArguments: 'quiet' })).changed, false)
  const after = accepted(setBoot(context, id, { kernelArguments: null })).record
  const { kernelArguments: _quiet, ...image } = desired.image
  assert.deepEqual(after.desired.image, image)
  assert.equal(after.generations.desired, generations.desired + 1)
})

test('kernel and initrd change only while the VM is stopped, with URLs that the host may use', (t) => {
  const { context, id, store, create, accepted, refusal, seenAs } = commandStage(t)
  create()
  const image = (letter: string, url = `https://i.example/${letter}`) => ({
    sha256: letter.repeat(64) as Sha256,
    source: { url: new SignedUrl(url) },
  })
  const change = { kernel: image('c'), initrd: image('d') }
  assert.equal(refusal(setBoot(context, id, change)).code, 'vm_not_stopped')
  accepted(setPower(context, id, 'stopped'))
  seenAs('stopped')
  const refused = refusal(setBoot(context, id, { initrd: image('d', 'file:///etc/shadow') }))
  assert.equal(refused.errors?.[0]?.pointer, '/initrd/url')
  const { desired } = accepted(setBoot(context, id, change)).record
  assert.deepEqual(desired.image, {
    rootfsSha256: 'a'.repeat(64),
    kernelSha256: 'c'.repeat(64),
    initrdSha256: 'd'.repeat(64),
    bootRevision: 1,
  })
  assert.equal(desired.instance, undefined, 'cloud-init has nothing to do')
  assert.equal(accepted(setBoot(context, id, change)).changed, false)
  const after = accepted(setBoot(context, id, { initrd: null })).record.desired.image
  assert.deepEqual([after.initrdSha256, after.bootRevision], [undefined, 2])
  const urls = [...store.vms.inputs(id).sources.keys()].map(([letter]) => letter)
  assert.deepEqual(urls, ['a', 'c'], 'no URL is kept of an image that the VM does not need')
})

test('user data and keys change only while the VM is stopped, and make another instance', (t) => {
  const { context, id, store, create, accepted, refusal, seenAs } = commandStage(t)
  create({ userData: 'a', sshAuthorizedKeys: ['ssh-ed25519 AAAA'] })
  assert.equal(refusal(setSeed(context, id, { userData: 'b' })).code, 'vm_not_stopped')
  assert.equal(accepted(setSeed(context, id, { userData: 'a' })).changed, false)
  accepted(setPower(context, id, 'stopped'))
  seenAs('stopped')
  store.sshHostKeys.pin(id, 'SHA256:a', 1000)
  const { record } = accepted(setSeed(context, id, { userData: 'b' }))
  assert.equal(record.desired.instance, 2)
  assert.equal(store.sshHostKeys.get(id), undefined, 'another instance has other host keys')
  const stored = (): unknown[] => {
    const { userData, sshAuthorizedKeys } = store.vms.inputs(id)
    return [userData, sshAuthorizedKeys]
  }
  assert.deepEqual(stored(), ['b', ['ssh-ed25519 AAAA']])
  const none = { userData: null, sshAuthorizedKeys: [] }
  const after = accepted(setSeed(context, id, none)).record
  assert.equal(accepted(setSeed(context, id, none)).changed, false)
  assert.deepEqual([after.desired.instance, ...stored()], [3, undefined, []])
  assert.equal(after.generations.desired, record.generations.desired + 1)
})

test('the request that created a VM is still known after its user data has changed', (t) => {
  const { context, id, create, accepted, seenAs } = commandStage(t)
  create({ power: 'stopped', userData: 'a' })
  seenAs('stopped')
  accepted(setSeed(context, id, { userData: 'b' }))
  assert.equal(accepted(create({ power: 'stopped', userData: 'a' })).changed, false)
})

test('a disk grows in any state and never shrinks', (t) => {
  const { context, id, create, accepted, refusal } = commandStage(t)
  create()
  assert.equal(accepted(setDisk(context, id, { sizeMib: 128 })).record.desired.disk.sizeMib, 128)
  assert.equal(refusal(setDisk(context, id, { sizeMib: 127 })).code, 'disk_shrink')
  assert.equal(refusal(resize(context, id, { compute, diskMib: 64 })).code, 'disk_shrink')
})

test('a limit of the disk stays unless a request removes it', (t) => {
  const { context, id, create, accepted } = commandStage(t)
  create()
  accepted(setDisk(context, id, { sizeMib: 64, iopsMax: 500 }))
  const resized = accepted(resize(context, id, { compute, diskMib: 128 }))
  assert.deepEqual(resized.record.desired.disk, { sizeMib: 128, iopsMax: 500 })
  const more = accepted(setDisk(context, id, { mibPerSecondMax: 20 })).record
  assert.deepEqual(more.desired.disk, { sizeMib: 128, iopsMax: 500, mibPerSecondMax: 20 })
  const lifted = accepted(setDisk(context, id, { iopsMax: null, mibPerSecondMax: null }))
  assert.deepEqual(lifted.record.desired.disk, { sizeMib: 128 })
})

test('an increase the host cannot hold is refused with what is short and by how much, and stores nothing', (t) => {
  const { context, id, create, accepted, refusal, seenAs, capacity, store } = commandStage(t)
  Object.assign(capacity.total, { memoryMib: 300, diskMib: 100 })
  create({ power: 'stopped' })
  seenAs('stopped')
  const before = store.vms.get(id)
  const bigger = { compute: { ...compute, memoryMib: 512 }, diskMib: 128 }
  const refused = refusal(resize(context, id, bigger))
  assert.equal(refused.code, 'insufficient_capacity')
  assert.equal(
    refused.text,
    'the host is short of memory by 212 MiB (256 MiB more needed, 44 MiB free of 300 MiB) and of ' +
      'disk by 28 MiB (64 MiB more needed, 36 MiB free of 100 MiB)',
  )
  assert.deepEqual(store.vms.get(id), before)
  capacity.total.memoryMib = 512
  assert.match(refusal(resize(context, id, bigger)).text, /^the host is short of disk by 28 MiB/)
  capacity.total.diskMib = 128
  accepted(resize(context, id, bigger))
})

test('what does not grow needs no room: an over-committed host still takes it', (t) => {
  const { context, id, create, accepted, seenAs, capacity } = commandStage(t)
  create({ power: 'stopped' })
  seenAs('stopped')
  Object.assign(capacity.total, { memoryMib: 0, diskMib: 0 })
  accepted(setCompute(context, id, { ...compute, memoryMib: 128 }))
  capacity.fault = { known: false, code: 'capacity_unknown', retry: 'backoff', message: 'too old' }
  accepted(setCompute(context, id, { ...compute, memoryMib: 64 }))
})

test('nothing is promised on figures that are not known', (t) => {
  const { context, id, create, refusal, capacity } = commandStage(t)
  create()
  capacity.fault = { known: false, code: 'storage_inspection_failed', retry: 'backoff', message: 'no mount' }
  assert.equal(refusal(setDisk(context, id, { sizeMib: 128 })).code, 'storage_inspection_failed')
})

test('memory does not depend on the pool, and disk does', (t) => {
  const { context, id, create, accepted, refusal, seenAs, capacity } = commandStage(t)
  create({ power: 'stopped' })
  seenAs('stopped')
  capacity.poolFault = {
    known: false,
    code: 'storage_inspection_failed',
    retry: 'backoff',
    message: 'no mount',
  }
  accepted(setCompute(context, id, { ...compute, memoryMib: 512 }))
  assert.equal(refusal(setDisk(context, id, { sizeMib: 128 })).code, 'storage_inspection_failed')
})

test('an address that stays is not judged again', (t) => {
  const { context, id, create, accepted, capacity } = commandStage(t)
  create()
  context.guestRanges = ['198.51.100.0/24']
  capacity.fault = { known: false, code: 'network_failed', retry: 'backoff', message: 'no look' }
  accepted(setNetwork(context, id, { ipv4Address: '192.0.2.10', bandwidth: { receiveMbitPerSecond: 10 } }))
})

test('bandwidth and firewall change under a running guest, its addresses do not', (t) => {
  const { context, id, create, accepted, refusal, seenAs } = commandStage(t)
  create()
  const bandwidth = { receiveMbitPerSecond: 10 }
  const ipv4Address = '192.0.2.10'
  const { record } = accepted(setNetwork(context, id, { ipv4Address, bandwidth }))
  assert.deepEqual(record.desired.network?.bandwidth, bandwidth)
  assert.match(record.desired.network?.macAddress ?? '', /^02:/, 'the address it had stays')
  const { record: closed } = accepted(setNetwork(context, id, { firewall: { inbound: [] } }))
  assert.deepEqual(closed.desired.network, { ...record.desired.network, firewall: { inbound: [] } })
  const moved = { ipv4Address: '192.0.2.11' }
  assert.equal(refusal(setNetwork(context, id, moved)).code, 'vm_not_stopped')
  accepted(setPower(context, id, 'stopped'))
  seenAs('stopped')
  assert.equal(accepted(setNetwork(context, id, moved)).record.desired.network?.ipv4Address, '192.0.2.11')
})

test('a member of a network that is absent stays, and one that is null goes', (t) => {
  const { context, id, create, accepted, seenAs } = commandStage(t)
  create()
  accepted(setPower(context, id, 'stopped'))
  seenAs('stopped')
  const network = (change: SetNetwork) =>
    accepted(setNetwork(context, id, change)).record.desired.network ?? assert.fail('no network')
  const macAddress = '02:00:5e:10:00:01' as MacAddress
  const whole = {
    macAddress,
    ipv4Address: '192.0.2.10',
    ipv6Address: '2001:db8::10',
    bandwidth: { receiveMbitPerSecond: 10 },
    firewall: { inbound: [] },
  }
  assert.deepEqual(network(whole), whole)
  assert.equal(accepted(setNetwork(context, id, {})).changed, false)
  const { ipv6Address: _, ...ipv4Only } = whole
  assert.deepEqual(network({ ipv6Address: null }), ipv4Only)
  assert.deepEqual(network({ ipv4Address: null, bandwidth: null, firewall: null }), { macAddress })
  assert.notEqual(network({ macAddress: null }).macAddress, macAddress)
})

test('a VM has the name servers it asks for, else those of the host at its creation, and keeps them', (t) => {
  const stage = commandStage(t)
  const { id, create, accepted, refusal, seenAs } = stage
  const context = { ...stage.context, nameServers: ['192.0.2.53'] }
  const request = createRequest({ power: 'stopped', network: {} })
  const made = accepted(createVm(context, id, request)).record
  assert.deepEqual(made.desired.network?.nameServers, ['192.0.2.53'])
  seenAs('stopped')
  const after = (change: SetNetwork) =>
    accepted(setNetwork(context, id, change)).record.desired.network?.nameServers
  context.nameServers = ['2001:db8::53']
  assert.deepEqual(after({ ipv4Address: '192.0.2.10' }), ['192.0.2.53'])
  assert.deepEqual(after({ nameServers: null }), ['2001:db8::53'])
  assert.deepEqual(after({ nameServers: ['169.254.0.1'] }), ['169.254.0.1'])
  assert.equal(after({ nameServers: [] }), undefined)
  assert.equal(after({ bandwidth: { receiveMbitPerSecond: 10 } }), undefined)
  accepted(setPower(context, id, 'running'))
  assert.equal(refusal(setNetwork(context, id, { nameServers: null })).code, 'vm_not_stopped')
  assert.equal(accepted(setNetwork(context, id, { nameServers: [] })).changed, false)
  const other = 'other' as typeof id
  create({ network: { nameServers: [] } }, other)
  assert.equal(stage.store.vms.get(other)?.desired.network?.nameServers, undefined)
})

test('a change without anything in it gives no network to a VM that has none', (t) => {
  const { context, id, accepted } = commandStage(t)
  const { network: _, ...without } = createRequest()
  accepted(createVm(context, id, without))
  assert.equal(accepted(setNetwork(context, id, {})).changed, false)
  assert.equal(accepted(setNetwork(context, id, { ipv4Address: null, firewall: null })).changed, false)
})

test('an address of another VM, of the host, or outside the ranges for guests is refused', (t) => {
  const { context, id, create, refusal, seenAs, accepted, capacity } = commandStage(t)
  create()
  const other = 'web-2'
  const answer = (ipv4Address: string) => refusal(create({ network: { ipv4Address } }, other)).code
  assert.equal(answer('192.0.2.10'), 'address_in_use')
  capacity.ownAddresses.add('192.0.2.1')
  assert.equal(answer('192.0.2.1'), 'address_in_use')
  context.guestRanges = ['192.0.2.0/25', '2001:db8::/64']
  assert.equal(answer('192.0.2.200'), 'address_not_allowed')
  accepted(setPower(context, id, 'stopped'))
  seenAs('stopped')
  assert.equal(refusal(setNetwork(context, id, { ipv6Address: '2001:db8:1::1' })).code, 'address_not_allowed')
  accepted(setNetwork(context, id, { ipv4Address: '192.0.2.10', ipv6Address: '2001:db8::1' }))
})

test('a prefix of a VM overlaps no address and no prefix of others, and stays in the ranges for guests', (t) => {
  const { context, id, create, refusal, accepted, seenAs, capacity } = commandStage(t)
  const own = { ipv6Address: '2001:db8:1:42::1', ipv6Prefix: '2001:db8:1:42::/64' }
  assert.deepEqual(accepted(create({ network: own })).record.desired.network?.ipv6Prefix, own.ipv6Prefix)
  const answer = (network: CreateNetwork) => {
    const { code, text } = refusal(create({ network }, 'web-2'))
    return `${code}: ${text}`
  }
  assert.match(
    answer({ ipv6Address: '2001:db8:1:42::2' }),
    /address_in_use: .* belongs to the VM web-1: choose/,
  )
  const beside = { ipv6Address: '2001:db8:2::1' }
  for (const ipv6Prefix of ['2001:db8:1:42:8000::/65', '2001:db8:1:40::/60', own.ipv6Prefix])
    assert.match(
      answer({ ...beside, ipv6Prefix }),
      /address_in_use: .* overlaps an address or the prefix of the VM web-1/,
    )
  capacity.ownAddresses.add('2001:db8:7::53')
  assert.match(
    answer({ ...beside, ipv6Prefix: '2001:db8:7::/64' }),
    /address_in_use: 2001:db8:7::\/64 has 2001:db8:7::53 in it, which belongs to the host itself/,
  )
  context.guestRanges = ['2001:db8:2::/48', '2001:db8:1::/48']
  assert.match(answer({ ...beside, ipv6Prefix: '2001:db8:3::/64' }), /^address_not_allowed/)
  assert.match(answer({ ...beside, ipv6Prefix: '2001:db8:2::/47' }), /^address_not_allowed/)
  accepted(create({ network: { ...beside, ipv6Prefix: '2001:db8:2:8000::/49' } }, 'web-2'))

  const wider = { ipv6Prefix: '2001:db8:1:40::/60' }
  assert.equal(accepted(setNetwork(context, id, wider)).changed, true, 'while it runs')
  accepted(setPower(context, id, 'stopped'))
  seenAs('stopped')
  const taken = refusal(setNetwork(context, id, { ipv6Prefix: '2001:db8:2::/48' }))
  assert.match(taken.text, /overlaps an address or the prefix of the VM web-2/)
})

test('a prefix needs an IPv6 address by way of which it is routed', (t) => {
  const { context, id, create, refusal, accepted, seenAs } = commandStage(t)
  const ipv6Prefix = '2001:db8:1:42::/64'
  const lone = refusal(create({ network: { ipv4Address: '192.0.2.10', ipv6Prefix } }))
  assert.deepEqual([lone.code, lone.errors?.[0]?.pointer], ['invalid_request', '/network/ipv6_prefix'])
  accepted(create({ network: { ipv6Address: '2001:db8::10', ipv6Prefix } }))
  accepted(setPower(context, id, 'stopped'))
  seenAs('stopped')
  assert.equal(refusal(setNetwork(context, id, { ipv6Address: null })).errors?.[0]?.pointer, '/ipv6_prefix')
  const { record } = accepted(setNetwork(context, id, { ipv6Address: null, ipv6Prefix: null }))
  assert.equal(record.desired.network?.ipv6Prefix, undefined)
})

test('a rehearsal returns what would be stored, stores nothing and wakes no worker', (t) => {
  const { context, id, create, accepted, store, pokes } = commandStage(t)
  const before = accepted(create()).record
  const seen: string[] = []
  store.onVmChange((changed) => seen.push(changed))
  pokes.length = 0
  const result = store.rehearse(() => setPower({ ...context, poke: () => {} }, id, 'paused'))
  assert.equal(accepted(result).record.generations.desired, 2)
  assert.deepEqual(store.vms.get(id), before)
  assert.deepEqual([seen, pokes], [[], []])
})

test('an idle timeout is refused for a VM without an address, since nothing could wake it', (t) => {
  const { context, id, create, accepted, refusal, store } = commandStage(t)
  const sleeper = { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 60 }
  const { network: _none, ...without } = createRequest({ compute: sleeper })
  for (const network of [{}, { network: {} }]) {
    const refused = refusal(createVm(context, id, { ...without, ...network }))
    assert.equal(refused.code, 'sleep_needs_network')
    assert.equal(refused.errors?.[0]?.pointer, '/compute/sleep_after_idle_seconds')
  }
  const awake = { ...sleeper, sleepAfterIdleSeconds: 0 }
  accepted(createVm(context, id, { ...without, compute: awake }))
  assert.equal(refusal(setCompute(context, id, sleeper)).code, 'sleep_needs_network')
  assert.equal(refusal(resize(context, id, { compute: sleeper, diskMib: 64 })).code, 'sleep_needs_network')
  assert.equal(store.vms.get(id)?.generations.desired, 1)
  accepted(create({ compute: sleeper }, 'web-2'))
})

test('the last address of a VM with an idle timeout stays', (t) => {
  const { context, id, create, accepted, refusal, seenAs } = commandStage(t)
  const network = { ipv4Address: '192.0.2.10', ipv6Address: '2001:db8::10' }
  accepted(create({ power: 'stopped', compute: { ...compute, sleepAfterIdleSeconds: 60 }, network }))
  seenAs('stopped')
  accepted(setNetwork(context, id, { ipv4Address: null }))
  const refused = refusal(setNetwork(context, id, { ipv6Address: null }))
  assert.deepEqual([refused.code, refused.errors?.[0]?.pointer], ['sleep_needs_network', '/ipv6_address'])
  accepted(setCompute(context, id, compute))
  accepted(setNetwork(context, id, { ipv6Address: null }))
})

test('a timeout that a VM without network has already keeps nothing else from changing', (t) => {
  const { context, id, create, accepted, store } = commandStage(t)
  create()
  const { network: _gone, ...desired } = store.vms.get(id)?.desired ?? assert.fail()
  const sleeper = { ...desired.compute, sleepAfterIdleSeconds: 60 }
  store.vms.changeDesired(id, {
    desired: { ...desired, compute: sleeper },
    operationId: 'op-x' as OperationId,
    nowMs: 1,
  })
  accepted(resize(context, id, { compute: sleeper, diskMib: 128 }))
})
