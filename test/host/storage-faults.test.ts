/** The installed daemon and its VMs when the pool or a disk disappears; all of it recovers by itself. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, renameSync, rmdirSync, statSync } from 'node:fs'
import { test } from 'node:test'
import { call, getVm, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { echo } from '../../lab/inside/first-packets.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { mainPid, ready, sh, unitProperty } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { limits } from '../../src/config/limits.ts'
import { atEnd } from '../contract/at-end.ts'
import { hangAt } from './hung-mount.ts'
import { sharedHost } from './shared-host.ts'
import type { Vm } from '../../lab/inside/controller.ts'

const POOL = '/var/lib/vmhostd/pool'
/** Mounts the same file system at another place, so that it can come back. */
const KEPT = '/run/pool-kept'
const MARKER = `${POOL}/vmhostd-pool.json`
const CODE = 'storage_inspection_failed'

const KEEPER = 'keeper'
const ADDRESS = '192.0.2.40'

/** Runs over the whole file: this guest must not notice anything that happens to the pool. */
let keeperPid: string

sharedHost({
  make: async () => {
    mkdirSync(KEPT, { recursive: true })
    await sh('mount', '--bind', POOL, KEPT)
    await sh('mount', '--make-private', KEPT)
    await create(KEEPER, { network: { ipv4_address: ADDRESS } })
    await settled(KEEPER, 'running')
    await until('the guest answers', ping)
    keeperPid = await mainPid(`vmhost-${KEEPER}`)
  },
  remove: async () => {
    await sh('umount', '--lazy', KEPT)
    rmdirSync(KEPT)
  },
})

const ping = async (): Promise<true> => {
  await sh('ping', '-c', '1', '-W', '1', ADDRESS)
  return true
}

const create = (id: string, options: Parameters<typeof guestRequest>[0] = {}): Promise<Vm> =>
  mutate('PUT', `/v1/vms/${id}`, guestRequest(options))

const diskOf = (id: string): string => `${POOL}/disks/${id}/disk.raw`

/** The parts of an answer of GET /v1/sync, or of a problem, that are read here. */
type Sync = {
  readonly code?: string
  readonly detail?: string
  readonly capacity?: {
    readonly disks: readonly { readonly total_mib: number; readonly available_mib: number }[]
  }
  readonly consoles?: { readonly protected: number; readonly running_units: number }
  readonly vms?: readonly { readonly id: string; readonly error?: string }[]
}

async function sync(): Promise<{ readonly status: number; readonly body: Sync }> {
  const { status, body } = await call('GET', '/v1/sync')
  return { status, body: body as unknown as Sync }
}

/** Waits until a VM shows a fault of this code for its present desired state. */
const faulted = (id: string, code: string): Promise<Vm> =>
  until(`${id} shows ${code}`, async () => {
    const vm = await getVm(id)
    const fault: Partial<Record<string, unknown>> = vm.observed.fault ?? {}
    return fault['code'] === code && fault['generation'] === vm.generations.desired ? vm : undefined
  })

/** Waits until the generations meet in a state, whatever other faults there are. */
const reached = (id: string, state: string): Promise<Vm> =>
  until(`${id} is ${state}`, async () => {
    const vm = await getVm(id)
    const { observed, generations } = vm
    return observed.state === state && generations.observed === generations.desired ? vm : undefined
  })

async function assertKept(): Promise<void> {
  assert.equal(await mainPid(`vmhost-${KEEPER}`), keeperPid, 'the guest was restarted')
  await echo(ADDRESS)
}

const unmount = (): Promise<string> => sh('umount', '--lazy', POOL)
const mountAgain = (): Promise<string> => sh('mount', '--bind', KEPT, POOL)

/** Ways to hide the pool; each returns a function that brings it back. */
const LOSSES = {
  'a pool that is unmounted': async () => {
    await unmount()
    return mountAgain
  },
  'a pool without its mark': async () => {
    renameSync(MARKER, `${MARKER}.away`)
    return async () => renameSync(`${MARKER}.away`, MARKER)
  },
  'an empty file system mounted over the pool': async () => {
    await sh('mount', '-t', 'tmpfs', 'none', POOL)
    for (const name of ['images', 'disks', 'tmp']) mkdirSync(`${POOL}/${name}`)
    return () => sh('umount', '--lazy', POOL)
  },
  'a pool whose server never answers': async () => {
    await unmount()
    const hung = await hangAt(POOL)
    return async () => {
      await hung.end()
      await mountAgain()
    }
  },
} satisfies Record<string, () => Promise<() => Promise<unknown>>>

for (const [loss, lose] of Object.entries(LOSSES)) {
  test(`${loss} is reported with its code everywhere, prevents no stop, and recovers`, async (t) => {
    for (const id of ['stopped', 'running', 'refused']) atEnd(t, () => remove(id))
    await Promise.all([create('stopped', { power: 'stopped' }), create('running')])
    await Promise.all([settled('stopped', 'stopped'), settled('running', 'running')])
    const bringBack = await lose()
    try {
      const answer = await sync()
      assert.deepEqual([answer.status, answer.body.code], [503, CODE])
      assert.equal(answer.body.capacity, undefined)
      const refused = await call('PUT', '/v1/vms/refused', guestRequest())
      assert.deepEqual([refused.status, (refused.body as unknown as Sync).code], [503, CODE])
      assert.equal((await call('GET', '/v1/vms/refused')).status, 404)

      await setPower('stopped', 'running')
      const { observed } = await faulted('stopped', CODE)
      assert.match(observed.error ?? '', /^storage\.inspect: /)
      assert.doesNotMatch(observed.error ?? '', /\/var\/lib/)

      await setPower('running', 'stopped')
      await reached('running', 'stopped')
      assert.equal(await mainPid('vmhost-running'), '0')
      await assertKept()
    } finally {
      await bringBack()
    }
    await Promise.all([
      settled('stopped', 'running'),
      settled('running', 'stopped'),
      settled(KEEPER, 'running'),
    ])
    const { status, body } = await sync()
    assert.equal(status, 200)
    assert.ok((body.capacity?.disks[0]?.available_mib ?? 0) > 0)
    assert.deepEqual(
      body.vms?.filter(({ error }) => error !== undefined),
      [],
    )
    await create('refused', { power: 'stopped' })
    await settled('refused', 'stopped')
    await assertKept()
  })
}

for (const loss of ['a pool that is unmounted', 'a pool whose server never answers'] as const) {
  test(`the daemon stops and starts with ${loss}, says so, and recovers when it is back`, async () => {
    const bringBack = await LOSSES[loss]()
    try {
      // The pool also hangs under inspections of the stopping daemon.
      assert.equal((await sync()).status, 503)
      await sh('systemctl', 'stop', 'vmhostd')
      assert.equal(await unitProperty('vmhostd', 'Result'), 'success', 'systemd had to kill it')
      await sh('systemctl', 'start', 'vmhostd')
      await ready()
      const { status, body } = await sync()
      assert.deepEqual([status, body.code], [503, CODE])
      assert.match(
        (await until('the look at the guest', () => withError(KEEPER))).observed.error ?? '',
        /storage/,
      )
      await assertKept()
    } finally {
      await bringBack()
    }
    await settled(KEEPER, 'running')
    assert.equal((await sync()).status, 200)
  })
}

const withError = async (id: string): Promise<Vm | undefined> => {
  const vm = await getVm(id)
  return vm.observed.error === undefined ? undefined : vm
}

test('a missing disk of a stopped VM is a fault, is never made again, and the fault ends when it is put back', async (t) => {
  atEnd(t, () => remove('lost'))
  await create('lost', { power: 'running' })
  await settled('lost', 'running')
  await setPower('lost', 'stopped')
  await settled('lost', 'stopped')
  const { ino } = statSync(diskOf('lost'))
  renameSync(diskOf('lost'), `${POOL}/disk-of-lost`)
  try {
    await setPower('lost', 'running')
    const { observed } = await faulted('lost', 'disk_missing')
    assert.equal(observed.state, 'failed')
    await until('a second attempt', async () =>
      ((await getVm('lost')).observed.fault?.attempt ?? 0) >= 2 ? true : undefined,
    )
    assert.ok(!existsSync(diskOf('lost')), 'the disk was made again')
    assert.equal((await sync()).status, 200)
  } finally {
    renameSync(`${POOL}/disk-of-lost`, diskOf('lost'))
  }
  await settled('lost', 'running')
  assert.equal(statSync(diskOf('lost')).ino, ino)
})

test('a missing disk of a running VM is reported, the guest lives on, and the fault ends when it is back', async () => {
  // Each change makes the daemon inspect; by itself it does so once a minute.
  const look = (seconds: number): Promise<Vm> =>
    mutate('PUT', `/v1/vms/${KEEPER}/compute`, {
      cpu_millicores: 1000,
      memory_mib: 256,
      sleep_after_idle_seconds: seconds,
    })
  renameSync(diskOf(KEEPER), `${POOL}/disk-of-keeper`)
  try {
    await look(86_400)
    const { observed } = await faulted(KEEPER, 'disk_missing')
    assert.ok(observed.compute !== undefined, 'a live guest is shown with the shape that it runs with')
    await assertKept()
  } finally {
    renameSync(`${POOL}/disk-of-keeper`, diskOf(KEEPER))
  }
  await look(0)
  await settled(KEEPER, 'running')
  await assertKept()
})

test('the host is reported with its actual figures', async () => {
  const { body } = await sync()
  const [size, free] =
    (await sh('df', '--output=size,avail', '--block-size=1M', POOL))
      .trim()
      .split('\n')[1]
      ?.trim()
      .split(/ +/) ?? []
  const [disk] = body.capacity?.disks ?? []
  assert.ok(Math.abs((disk?.total_mib ?? 0) - Number(size)) <= 1)
  assert.ok(Math.abs((disk?.available_mib ?? 0) - Number(free)) <= 8)
  assert.deepEqual(body.consoles, {
    protected: 1,
    running_units: 1,
    descriptor_store_available: true,
    unprotected: [],
    places_total: limits.consolePlacesMax,
    places_free: limits.consolePlacesMax - 1,
    places_held: 1,
    places_held_max: limits.consolePlacesMax * (1 - limits.sleepersPlacesShare),
  })
  const memTotal = Number(/MemTotal: +([0-9]+)/.exec(await sh('cat', '/proc/meminfo'))?.[1])
  assert.equal(
    (body.capacity as unknown as { memory: { total_mib: number } }).memory.total_mib,
    Math.floor(memTotal / 1024),
  )
})
