import assert from 'node:assert/strict'
import { X509Certificate, randomBytes } from 'node:crypto'
import { before, test } from 'node:test'
import { serialOf } from '../../src/api/listener/peer-chain.ts'
import { limits } from '../../src/config/limits.ts'
import { HostFault } from '../../src/core/errors.ts'
import { Course, MIB, start, startBody } from './support/snapshots.ts'
import { unitSpecOf } from '../fakes/unit-spec.ts'
import { assertProblem, createBody, makePki, SHA, startControllerHost } from './support/controller-host.ts'
import type { SnapshotId, StagingId } from '../../src/core/snapshots/record.ts'
import type { Generation, Sha256, VmId } from '../../src/core/ids.ts'
import type { Fault, Observed, PartialFault } from '../../src/core/vm/record.ts'
import type { Answer, ControllerHost, Json, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const sync = (host: ControllerHost): Promise<Answer> => host.call({ path: '/v1/sync' })
const bare = { network: undefined }
const create = (host: ControllerHost, id: string, changes: object = bare): Promise<Answer> =>
  host.call({ method: 'PUT', path: `/v1/vms/${id}`, body: createBody(changes) })

const never = new AbortController().signal

/** A running VM as systemd sees it, with its console stored or not. */
async function run({ host }: ControllerHost, id: string, { stored = true } = {}): Promise<void> {
  if (stored) await host.consoles.ensureMaster(id as VmId)
  await host.fakeUnits.ensureStarted(id as VmId, unitSpecOf(id as VmId), never)
}

test('an empty host reports its identity and its resources, each figure as last inspected', async (t) => {
  const host = await startControllerHost(t, pki)
  const { status, json } = await sync(host)
  assert.equal(status, 200)
  assert.match(json.host.clock, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  delete json.host.clock
  for (const client of json.host.clients) {
    assert.match(client.seen_at, /^20.*Z$/)
    delete client.seen_at
  }
  const ends = new Map([
    ['authority', new X509Certificate(pki.authority.certificate)],
    ['controller', new X509Certificate(pki.controller.certificate)],
    ['server', new X509Certificate(pki.server.certificate)],
  ])
  assert.deepEqual(json, {
    host: {
      id: 'host-1',
      boot_id: 'boot-1',
      version: '1.2.3',
      ssh_public_key: 'ssh-ed25519 AAAA vmhostd@host-1',
      monitors: [
        {
          ...{ kind: 'qemu', offered: true, default: true, program: 'qemu-system-x86_64', version: '10.0.2' },
          ...{ accelerator: 'tcg', because: 'KVM does not open (ENOENT)' },
        },
        {
          ...{ kind: 'firecracker', offered: false, default: false, program: 'firecracker' },
          ...{ accelerator: 'kvm', because: 'firecracker is not a program that can be run' },
        },
      ],
      kernel: '6.12.41',
      maintenance: { state: 'schedulable', observed_state: 'schedulable' },
      architecture: 'x86_64',
      certificates: [...ends].map(([name, { validToDate }]) => ({
        name,
        not_after: validToDate.toISOString(),
      })),
      clients: [
        {
          name: 'vmhost-controller',
          role: 'controller',
          serial: serialOf(new X509Certificate(pki.controller.certificate).serialNumber),
          not_after: new X509Certificate(pki.controller.certificate).validToDate.toISOString(),
        },
      ],
    },
    capacity: {
      cpu: { total_millicores: 4000, committed_millicores: 0 },
      memory: {
        total_mib: 8192,
        available_mib: 6000,
        committed_mib: 0,
        committed_guests_mib: 0,
        committed_monitors_mib: 0,
        allocatable_mib: 7168,
        sleep_ratio: 1,
        held_mib: 0,
        waiting_vms: 0,
        resident_mib: 0,
        not_resident_mib: 0,
      },
      disks: [
        {
          pool: 'pool-1',
          total_mib: 100_000,
          available_mib: 90_000,
          committed_mib: 1024,
          committed_disks_mib: 0,
          committed_saved_mib: 0,
          committed_images_mib: 0,
          committed_staging_mib: 1024,
          allocatable_mib: 98_976,
        },
      ],
    },
    vms: [],
    snapshots: [],
    staging: { packed_mib: 0, sent_mib: 0, clones_mib_max: 0, quota_mib: 1024 },
    images: [],
    consoles: {
      protected: 0,
      running_units: 0,
      descriptor_store_available: true,
      unprotected: [],
      places_total: 1000,
      places_free: 1000,
      places_held: 0,
      places_held_max: 900,
    },
  })
})

test('the memory of running VMs is measured, for a few seconds once, and absent if it cannot be', async (t) => {
  const host = await startControllerHost(t, pki)
  const { fakeUnits } = host.host
  await create(host, 'web-1')
  await create(host, 'web-2', { ...bare, power: 'stopped' })
  const shown = async (): Promise<unknown[]> => {
    const { capacity, vms } = (await sync(host)).json
    const { resident_mib: residentMib, not_resident_mib: notResidentMib } = capacity.memory
    return [residentMib, notResidentMib, ...vms.map((vm: Json) => vm.resident_mib)]
  }
  assert.deepEqual(await shown(), [0, 0, undefined, undefined])
  host.clock.advance(limits.residentAgeMsMax)
  await run(host, 'web-1')
  fakeUnits.memory.set('web-1' as VmId, { anonymousBytes: 200 * MIB, fileBytes: 20 * MIB })
  assert.deepEqual(await shown(), [200, 512 + 100 - 200, 200, undefined])
  const { measurements } = fakeUnits
  fakeUnits.memory.set('web-1' as VmId, { anonymousBytes: 50 * MIB, fileBytes: 20 * MIB })
  host.clock.advance(limits.residentRenewMs - 1)
  assert.deepEqual(await shown(), [200, 412, 200, undefined])
  assert.equal(fakeUnits.measurements, measurements)
  host.clock.advance(1)
  assert.deepEqual(await shown(), [200, 412, 200, undefined], 'no report waits for the next measurement')
  assert.equal(fakeUnits.measurements, measurements + 1)
  assert.deepEqual(await shown(), [50, 562, 50, undefined])
  host.clock.advance(limits.residentAgeMsMax)
  fakeUnits.failNext(
    'resident',
    new HostFault('capacity_unknown', 'measuring the memory of the units of VMs'),
  )
  assert.deepEqual(await shown(), [undefined, undefined, undefined, undefined])
  assert.deepEqual(await shown(), [50, 562, 50, undefined])
})

test('commitments to VMs count until the VMs are gone', async (t) => {
  const host = await startControllerHost(t, pki)
  const committed = async (): Promise<number[]> => {
    const { cpu, memory, disks } = (await sync(host)).json.capacity
    return [cpu.committed_millicores, memory.committed_mib, disks[0].committed_mib]
  }
  await create(host, 'web-1')
  await create(host, 'web-2', { ...bare, power: 'stopped', disk: { size_mib: 100 } })
  assert.deepEqual(await committed(), [3000, 1024 + 2 * 100, 2148 + 1024])
  await host.call({ method: 'DELETE', path: '/v1/vms/web-1' })
  assert.deepEqual(await committed(), [3000, 1024 + 2 * 100, 2148 + 1024])
  host.store.vms.forget('web-1' as VmId, 0)
  assert.deepEqual(await committed(), [1500, 512 + 100, 100 + 1024])
})

test('every VM is listed briefly, with the same error as on its own route', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const id of ['b', 'a']) await create(host, id)
  const fault: Fault = {
    code: 'image_unavailable',
    step: 'image.ensure-fetched',
    message: 'fetching rootfs: GET https://images.example.net/root.img?X-Amz-Signature=CANARY: 403',
    generation: 1 as Generation,
    sinceMs: 1,
    attempt: 1,
    nextAttemptAtMs: 2,
  }
  const partialFaults: PartialFault[] = [
    { code: 'disk_missing', step: 'storage.inspect', message: 'its disk is gone' },
  ]
  const observed: Observed = { state: 'failed', sinceMs: 1, fault, partialFaults }
  host.store.vms.recordProgress('b' as VmId, { observed, nowMs: 1 })
  const { json, text } = await sync(host)
  const { observed: shown } = (await host.call({ path: '/v1/vms/b' })).json
  assert.ok(shown.error.length > 0 && !text.includes('CANARY'))
  assert.deepEqual(json.vms, [
    { id: 'a', generations: { desired: 1, observed: 0 }, state: 'pending' },
    { id: 'b', generations: { desired: 1, observed: 0 }, state: 'failed', error: shown.error },
  ])
})

test('the size of a disk that the host cannot see is omitted', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host, 'a')
  const shownWith = async (disk: Observed['disk'] & object): Promise<unknown> => {
    host.store.vms.recordProgress('a' as VmId, { observed: { state: 'running', sinceMs: 1, disk }, nowMs: 1 })
    return (await host.call({ path: '/v1/vms/a' })).json.observed.disk
  }
  assert.deepEqual(await shownWith({ sizeMib: 64 }), { size_mib: 64 })
  assert.equal(await shownWith({ sizeMib: 64, guestSizeMib: 64, unseen: true }), undefined)
})

test('images of the pool are listed with their size, the number of VMs made from them, and the last use', async (t) => {
  const host = await startControllerHost(t, pki)
  const [other, initrd] = ['c', 'd'].map((digit) => digit.repeat(64) as Sha256) as [Sha256, Sha256]
  const { kernel, rootfs } = createBody().image
  const images = [
    [initrd, 3],
    [other, 7],
    [kernel.sha256, 9],
    [SHA, 24],
  ] as const
  for (const [sha256, mib] of images) host.host.storage.putImage(sha256 as Sha256, mib)
  const url = 'https://images.example.net/initrd'
  await create(host, 'web-2', bare)
  const created = await create(host, 'web-1', {
    ...bare,
    image: { rootfs, kernel, initrd: { url, sha256: initrd } },
  })
  const createdAt = created.json.created_at
  assert.deepEqual((await sync(host)).json.images, [
    { sha256: SHA, size_mib: 24, use_count: 2, last_used_at: createdAt },
    { sha256: kernel.sha256, size_mib: 9, use_count: 2, last_used_at: createdAt },
    { sha256: other, size_mib: 7, use_count: 0 },
    { sha256: initrd, size_mib: 3, use_count: 1, last_used_at: createdAt },
  ])
  for (const id of ['web-1', 'web-2']) {
    await host.call({ method: 'DELETE', path: `/v1/vms/${id}` })
    host.store.vms.forget(id as VmId, 1000)
  }
  const used = (await sync(host)).json.images.map((image: Json) => [image.use_count, image.last_used_at])
  const lastUsedAt = '1970-01-01T00:00:01.000Z'
  assert.deepEqual(used, [
    [0, lastUsedAt],
    [0, lastUsedAt],
    [0, undefined],
    [0, lastUsedAt],
  ])
})

test('every snapshot is listed briefly, in agreement with its own route', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host, 'web-1')
  for (const id of ['b', 'c', 'a']) await start(host, startBody({ part_urls: [] }), id)
  const [a, b] = ['a', 'b'].map((id) => new Course(host, id as SnapshotId)) as [Course, Course]
  a.sendAll()
  a.complete()
  b.capture(300)
  b.pack(1)
  b.fail({ resumable: true })
  const expected = []
  for (const id of ['a', 'b', 'c']) {
    const { json } = await host.call({ path: `/v1/snapshots/${id}` })
    const { vm_id, status, needs_urls, last_activity_at, error, progress } = json
    const shown = { id, vm_id, status, percent: progress.percent, needs_urls, last_activity_at }
    expected.push(error === undefined ? shown : { ...shown, error })
  }
  const { snapshots } = (await sync(host)).json
  assert.deepEqual(snapshots, expected)
  assert.deepEqual(
    snapshots.map(({ status }: Json) => status),
    ['completed', 'failed', 'pending'],
  )
})

test('the size of staging is reported, and omitted if it cannot be seen', async (t) => {
  const host = await startControllerHost(t, pki)
  const { staging } = host.host
  // Incompressible data takes its own length, and a little more.
  const content = randomBytes(2 * MIB)
  staging.disks.set('web-1' as VmId, { content, sizeBytes: 2 * MIB })
  const [a, b] = ['a.op-1' as StagingId, 'b.op-2' as StagingId]
  for (const id of [a, b]) {
    await staging.clone(id, 'web-1' as VmId)
    await staging.keep(id)
  }
  const from = { imageBytes: 0, storedBytes: 0 }
  await staging.pack({ stagingId: a, from, parts: 0, partBytes: 5 * MIB, onPart: async () => {} }, never)
  assert.deepEqual((await sync(host)).json.staging, {
    packed_mib: 3,
    sent_mib: 0,
    clones_mib_max: 4,
    quota_mib: 1024,
  })
  const fault = new HostFault('storage_inspection_failed', 'listing staging: the pool is out of sight')
  staging.failNext('list', fault)
  const problem = assertProblem(await sync(host), 503, 'storage_inspection_failed')
  assert.ok(!('staging' in problem))
})

test('running VMs are counted by whether their console outlives the daemon, and those without one are named', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const id of ['web-1', 'web-2']) await run(host, id)
  for (const id of ['old-2', 'old-1']) await run(host, id, { stored: false })
  host.host.descriptorStoreAvailable = false
  assert.deepEqual((await sync(host)).json.consoles, {
    protected: 2,
    running_units: 4,
    descriptor_store_available: false,
    unprotected: ['old-1', 'old-2'],
    places_total: 1000,
    places_free: 998,
    places_held: 0,
    places_held_max: 900,
  })
})

test('a monitor that is not installed has no version', async (t) => {
  const host = await startControllerHost(t, pki)
  host.figures.version = undefined
  const [qemu] = (await sync(host)).json.host.monitors
  assert.deepEqual([qemu.program, qemu.version], ['qemu-system-x86_64', undefined])
})

test('a hidden pool is a 503 with its code, and recovers with the next request', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host, 'web-1')
  host.figures.setInSight(false)
  const problem = assertProblem(await sync(host), 503, 'storage_inspection_failed')
  assert.equal(problem.retryable, true)
  assert.ok(!('capacity' in problem))
  host.figures.setInSight(true)
  assert.equal((await sync(host)).status, 200)
})

test('any other failed inspection is a 503 with its code, without figures', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const [method, code] of [
    ['memory', 'capacity_unknown'],
    ['cpus', 'capacity_unknown'],
  ] as const) {
    host.figures.break(method, new HostFault(code, `reading the ${method} of the host`))
    const problem = assertProblem(await sync(host), 503, code)
    assert.equal(problem.detail, `reading the ${method} of the host`)
    host.figures.repair(method)
  }
  const fault = new HostFault('storage_inspection_failed', 'listing the images of the host')
  host.host.storage.failNext('images', fault)
  assert.equal(assertProblem(await sync(host), 503, fault.code).detail, fault.message)
  host.host.fakeUnits.failNext('active', new HostFault('systemd_unavailable', 'listing units'))
  assertProblem(await sync(host), 503, 'systemd_unavailable')
  assert.equal((await sync(host)).status, 200)
})

test("the host's own addresses are not part of the answer, so it does not wait for them", async (t) => {
  const host = await startControllerHost(t, pki)
  host.figures.break('addresses', new HostFault('network_failed', "listing the host's addresses"))
  assert.equal((await sync(host)).status, 200)
})

test('before consoles are adopted the answer is 503, and a query parameter is refused', async (t) => {
  const host = await startControllerHost(t, pki)
  assertProblem(await host.call({ path: '/v1/sync?fresh=1' }), 400, 'invalid_request')
  host.storeIsOpen = false
  assertProblem(await sync(host), 503, 'starting_up')
  assert.equal(host.figures.looks.pool, 0)
})
