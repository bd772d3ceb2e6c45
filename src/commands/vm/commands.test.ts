import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage, createRequest } from '../../../test/command-stage.ts'
import { createVm } from './create-vm.ts'
import { deleteVm } from './delete-vm.ts'
import { setPower } from './set-power.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import { setNetwork, setReadiness } from './reshape.ts'
import type { CreateVm } from '../../core/vm/create.ts'
import type { Generation, Sha256, VmId } from '../../core/ids.ts'
import type { Fault } from '../../core/vm/record.ts'

const kernel = 'b'.repeat(64) as Sha256

test('a new VM is stored at generation 1 and its worker woken', (t) => {
  const { context, id, pokes, accepted } = commandStage(t)
  const { record, changed } = accepted(createVm(context, id, createRequest({}, '1')))
  assert.equal(changed, true)
  assert.deepEqual(record.generations, { desired: 1, observed: 0 })
  assert.match(record.desired.network?.macAddress ?? '', /^02:76:/)
  assert.deepEqual(pokes, ['web-1: created'])
})

test('the same request again changes nothing, even after the power was changed since', (t) => {
  const { context, id, pokes, accepted } = commandStage(t)
  createVm(context, id, createRequest({}, '1'))
  setPower(context, id, 'stopped')
  pokes.length = 0
  const { record, changed } = accepted(createVm(context, id, createRequest({}, '1')))
  assert.equal(changed, false)
  assert.equal(record.generations.desired, 2)
  assert.deepEqual(pokes, [])
})

test('a power that is desired already is tried again at once after a fault, and raises no generation', (t) => {
  const { context, id, store, pokes, accepted } = commandStage(t)
  createVm(context, id, createRequest({}, '1'))
  pokes.length = 0
  const fault: Fault = {
    code: 'storage_full',
    step: 'storage.ensure-disk',
    message: 'no room',
    generation: 1 as Generation,
    sinceMs: 1,
    attempt: 3,
    nextAttemptAtMs: 60_000,
  }
  store.vms.recordProgress(id, { observed: { state: 'failed', sinceMs: 1, fault }, nowMs: 1 })
  const { record, changed } = accepted(setPower(context, id, 'running'))
  assert.deepEqual([changed, record.generations.desired], [false, 1])
  assert.deepEqual(pokes, ['web-1: power running again'])
})

test('fresh URLs in a repeat replace the stored ones and raise no generation', (t) => {
  const { context, id, store, pokes, accepted } = commandStage(t)
  createVm(context, id, createRequest({}, 'old'))
  pokes.length = 0
  const { record, changed } = accepted(createVm(context, id, createRequest({}, 'new')))
  assert.deepEqual([changed, record.generations.desired], [false, 1])
  assert.equal(store.vms.inputs(id).sources.get(kernel)?.url.reveal(), 'https://i.example/b?signature=new')
  assert.deepEqual(pokes, ['web-1: fresh image URLs'])
})

/** Returns the images of a request whose kernel comes from `url`. */
const kernelFrom = (url: string): Partial<CreateVm> => ({
  image: {
    images: createRequest().image.images.map((image) =>
      image.role === 'kernel' ? { ...image, source: { url: new SignedUrl(url) } } : image,
    ),
  },
})

for (const [url, because] of [
  ['http://i.example/b', /^it has http:, which is not allowed/],
  ['https://127.0.0.1/b', /^it names a loopback address/],
  ['file:///etc/passwd', /^it names a file outside of the local image directory/],
  ['file:///srv/images/../../etc/passwd', /outside/],
  ['file:///srv/images/..%2f..%2fetc/passwd', /outside/],
  ['file:///srv/imagesandmore/b', /outside/],
  ['file:///srv/images/%ff', /outside/],
  ['file://elsewhere/srv/images/b', /another host/],
] as const) {
  test(`an image from ${url} is refused at the request`, (t) => {
    const { context, id, store, refusal } = commandStage(t)
    context.localImagesDirectory = '/srv/images'
    const { code, errors } = refusal(createVm(context, id, createRequest(kernelFrom(url))))
    assert.equal(code, 'url_not_allowed')
    assert.deepEqual(
      errors?.map(({ pointer }) => pointer),
      ['/image/kernel/url'],
    )
    assert.match(errors?.[0]?.detail ?? '', because)
    assert.equal(store.vms.get(id), undefined)
  })
}

test('a file below the local image directory is taken; without such a directory none is', (t) => {
  const { context, id, accepted, refusal } = commandStage(t)
  const request = createRequest(kernelFrom('file:///srv/images/a%20kernel'))
  assert.match(refusal(createVm(context, id, request)).text, /no local image directory is configured/)
  context.localImagesDirectory = '/srv/images/'
  assert.equal(accepted(createVm(context, id, request)).changed, true)
})

test('a repeat is not held against a policy that has changed, unless it brings fresh URLs', (t) => {
  const { context, id, accepted, refusal } = commandStage(t)
  createVm(context, id, createRequest({}, 'old'))
  context.outbound = { ...context.outbound, allowedHosts: ['other.example'] }
  assert.equal(accepted(createVm(context, id, createRequest({}, 'old'))).changed, false)
  assert.equal(refusal(createVm(context, id, createRequest({}, 'new'))).code, 'url_not_allowed')
})

test('a disk smaller than an image that is in the pool is refused, and no other', (t) => {
  const { context, id, capacity, refusal, accepted } = commandStage(t)
  const rootfs = 'a'.repeat(64) as Sha256
  capacity.imagesMib.set(rootfs, 65).set(kernel, 1000)
  const { code, text, errors } = refusal(createVm(context, id, createRequest()))
  assert.equal(code, 'disk_too_small')
  assert.match(text, /the disk has 64 MiB and its image 65 MiB/)
  assert.deepEqual(
    errors?.map(({ pointer }) => pointer),
    ['/disk/size_mib'],
  )
  capacity.imagesMib.set(rootfs, 64)
  assert.equal(accepted(createVm(context, id, createRequest())).changed, true)
})

test('a different request for the same id is a conflict, and changes nothing', (t) => {
  const { context, id, store, refusal } = commandStage(t)
  createVm(context, id, createRequest({}, '1'))
  const before = store.vms.get(id)
  assert.equal(refusal(createVm(context, id, createRequest({ disk: { sizeMib: 65 } }, '1'))).code, 'conflict')
  assert.equal(
    refusal(createVm(context, id, createRequest({ userData: '#cloud-config' }, '1'))).code,
    'conflict',
  )
  assert.deepEqual(store.vms.get(id), before)
})

test('an address another VM has is refused', (t) => {
  const { context, id, refusal } = commandStage(t)
  createVm(context, id, createRequest({}, '1'))
  assert.equal(refusal(createVm(context, 'web-2' as VmId, createRequest({}, '1'))).code, 'address_in_use')
})

test('a host whose user ids are used up refuses the next VM in words', (t) => {
  const { context, accepted, refusal } = commandStage(t, 2)
  for (const [index, name] of ['a', 'b'].entries()) {
    accepted(
      createVm(
        context,
        name as VmId,
        createRequest({ network: { ipv4Address: `192.0.2.${index + 1}` } }, '1'),
      ),
    )
  }
  const another = () => refusal(createVm(context, 'c' as VmId, createRequest({}, '1')))
  assert.equal(another().code, 'user_ids_exhausted')
  assert.doesNotMatch(another().text, /under deletion/)
  deleteVm(context, 'a' as VmId)
  assert.match(another().text, /; the range has room when the VM under deletion is gone$/)
})

test('power is stored, raises a generation and names a new operation; the same power again does not', (t) => {
  const { context, id, accepted } = commandStage(t)
  const created = accepted(createVm(context, id, createRequest({}, '1')))
  const stopped = accepted(setPower(context, id, 'stopped'))
  assert.equal(stopped.record.generations.desired, 2)
  assert.notEqual(stopped.record.operationId, created.record.operationId)
  const again = accepted(setPower(context, id, 'stopped'))
  assert.deepEqual([again.changed, again.record.generations.desired], [false, 2])
})

test('a deletion is asked for once, and nothing else is taken after it', (t) => {
  const { context, id, accepted, refusal } = commandStage(t)
  createVm(context, id, createRequest({}, '1'))
  assert.equal(accepted(deleteVm(context, id)).changed, true)
  assert.equal(accepted(deleteVm(context, id)).changed, false)
  assert.equal(refusal(setPower(context, id, 'running')).code, 'vm_deleting')
  assert.equal(refusal(createVm(context, id, createRequest({}, '1'))).code, 'vm_deleting')
})

test('a missing VM is reported as such', (t) => {
  const { context, id, refusal } = commandStage(t)
  assert.equal(refusal(setPower(context, id, 'running')).code, 'not_found')
  assert.equal(refusal(deleteVm(context, id)).code, 'not_found')
})

test('a VM gets the monitor that the host chooses, or the one that it asks for, and keeps it', (t) => {
  const { context, id, capacity, accepted, refusal } = commandStage(t)
  capacity.defaultMonitor = 'firecracker'
  const without = createRequest()
  assert.equal(accepted(createVm(context, id, without)).record.monitor, 'firecracker')
  capacity.defaultMonitor = 'qemu'
  assert.equal(accepted(createVm(context, id, without)).record.monitor, 'firecracker')
  const { code, text } = refusal(createVm(context, id, { ...without, monitor: 'qemu' }))
  assert.equal(code, 'conflict')
  assert.match(text, /differs in monitor/)
  const asked = { ...createRequest({ network: {} }), monitor: 'firecracker' } as const
  const other = 'web-2' as VmId
  assert.equal(accepted(createVm(context, other, asked)).record.monitor, 'firecracker')
  assert.equal(accepted(createVm(context, other, asked)).changed, false)
})

test('a monitor that the host does not offer is refused, with the one that it offers', (t) => {
  const { context, id, capacity, store, refusal } = commandStage(t)
  capacity.notOffered.set('firecracker', '/dev/kvm does not open (ENOENT)')
  const { code, text, errors } = refusal(createVm(context, id, createRequest({ monitor: 'firecracker' })))
  assert.equal(code, 'monitor_not_offered')
  assert.equal(text, 'this host does not offer firecracker: /dev/kvm does not open (ENOENT); it offers qemu')
  assert.deepEqual(
    errors?.map(({ pointer }) => pointer),
    ['/monitor'],
  )
  assert.equal(store.vms.get(id), undefined)
})

test('the memory that a monitor takes is that of its own kind', (t) => {
  const { context, id, capacity, accepted, refusal } = commandStage(t)
  const compute = { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 }
  capacity.monitorMib = (kind) => (kind === 'qemu' ? 200 : 10)
  capacity.total.memoryMib = 276
  const tooMuch = refusal(createVm(context, id, createRequest({ compute, monitor: 'qemu' })))
  assert.equal(tooMuch.code, 'insufficient_capacity')
  assert.equal(
    accepted(createVm(context, id, createRequest({ compute, monitor: 'firecracker' }))).changed,
    true,
  )
})

test('a VM that names no monitor is taken although the program is not installed yet', (t) => {
  const { context, id, capacity, accepted } = commandStage(t)
  capacity.notOffered.set('qemu', 'qemu-system-x86_64 is not a program that can be run')
  assert.equal(accepted(createVm(context, id, createRequest())).record.monitor, 'qemu')
})

test('the last address of a VM with a readiness check stays', (t) => {
  const { context, id, create, accepted, refusal, seenAs } = commandStage(t)
  const network = { ipv4Address: '192.0.2.10', ipv6Address: '2001:db8::10' }
  const readiness = { protocol: 'tcp', port: 22 } as const
  accepted(create({ power: 'stopped', readiness, network }))
  seenAs('stopped')
  accepted(setNetwork(context, id, { ipv4Address: null }))
  const refused = refusal(setNetwork(context, id, { ipv6Address: null }))
  assert.deepEqual([refused.code, refused.errors?.[0]?.pointer], ['invalid_request', '/ipv6_address'])
  assert.match(refused.text, /remove the check first/)
  accepted(setReadiness(context, id, undefined))
  accepted(setNetwork(context, id, { ipv6Address: null }))
})
