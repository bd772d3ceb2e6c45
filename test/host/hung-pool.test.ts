/** A pool that hangs while the daemon works on it: every request is still answered, and other VMs can stop. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { after, test } from 'node:test'
import { configure } from '../../lab/inside/configure.ts'
import { call, getVm, mutate, remove, settled } from '../../lab/inside/controller.ts'
import { GUEST_IMAGES, guestImage, guestRequest } from '../../lab/inside/guest.ts'
import { STORE_NETWORKS } from '../../lab/inside/object-store.ts'
import { mainPid, ready, sh, unitProperty } from '../../lab/inside/shell.ts'
import { findSnapshot, snapshotIs, startSnapshot } from '../../lab/inside/snapshots.ts'
import { until } from '../../lab/inside/until.ts'
import { atEnd } from '../contract/at-end.ts'
import { hangAt } from './hung-mount.ts'
import { makeStopped, POOL, snapshotStage, stagingEmpty } from './snapshot-stage.ts'
import type { AddressInfo } from 'node:net'
import type { Answer } from '../../lab/inside/controller.ts'
import type { HungMount } from './hung-mount.ts'

const stage = snapshotStage()
/** Mounts the same file system at another place, so that it can come back. */
const KEPT = '/run/pool-kept'
/** Bound on every request, because none waits for the host. What waits for the pool takes `limits.poolCallMs`. */
const ANSWER_MS = 20_000
/** Rate of the image source and of sent parts: each transfer takes longer than this test. */
const SLOW_BYTES = 64 * 1024
const SLOW_MBIT = 4

const RUNNING = ['first', 'second', 'third']

async function setUp(): Promise<void> {
  mkdirSync(KEPT, { recursive: true })
  await sh('mount', '--bind', POOL, KEPT)
  await sh('mount', '--make-private', KEPT)
  await configure('object_store', {
    allow_http: true,
    allowed_networks: [...STORE_NETWORKS, '127.0.0.1/32'],
  })
  await configure('snapshots', { upload_mbit_per_second: SLOW_MBIT })
}

after(async () => {
  await sh('umount', '--lazy', KEPT)
  rmdirSync(KEPT)
})

/** A source of the root image that sends it slowly, until the test releases the rest. */
async function slowSource(): Promise<{ readonly url: string; readonly finish: () => void }> {
  const content = readFileSync(`${GUEST_IMAGES}/rootfs.raw`)
  let isSlow = true
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-length': content.length })
    let at = 0
    const timer = setInterval(() => {
      const bytes = isSlow ? SLOW_BYTES : content.length
      response.write(content.subarray(at, at + bytes))
      at += bytes
      if (at >= content.length) response.end()
    }, 100)
    response.on('close', () => clearInterval(timer))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  server.unref()
  const finish = (): void => void (isSlow = false)
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/rootfs.raw`, finish }
}

/** Hangs the pool below the daemon. */
async function hangPool(): Promise<() => Promise<void>> {
  await sh('umount', '--lazy', POOL)
  const hung: HungMount = await hangAt(POOL)
  return async () => {
    await hung.end()
    await sh('mount', '--bind', KEPT, POOL)
  }
}

/** Sends one request, which must be answered in time. */
async function answered(method: string, path: string, body?: unknown): Promise<Answer> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`${method} ${path}: no answer in time`)), ANSWER_MS)
  try {
    return await Promise.race([call(method, path, body), late.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Stops a VM in time, and sees it stopped. */
async function stops(id: string): Promise<void> {
  assert.equal((await answered('PUT', `/v1/vms/${id}/power`, { state: 'stopped' })).status, 202)
  await until(`${id} is stopped`, async () => {
    const { status, body } = await answered('GET', `/v1/vms/${id}`)
    assert.equal(status, 200)
    const { observed, generations } = body
    return observed.state === 'stopped' && generations.observed === generations.desired ? true : undefined
  })
  assert.equal(await mainPid(`vmhost-${id}`), '0')
}

/** Checks that reads of the whole host are answered, or report that it cannot be inspected. */
async function readsAnswer(): Promise<void> {
  for (const path of ['/v1/vms', '/v1/snapshots', '/v1/vms/first', '/v1/snapshots/kept', '/healthz'])
    assert.equal((await answered('GET', path)).status, 200, path)
  assert.equal((await answered('GET', '/readyz')).status, 200)
}

test('a pool that hangs under a snapshot, a fetch and deletions of both delays no request and no stop', async (t) => {
  await setUp()
  const source = await slowSource()
  for (const id of [...RUNNING, 'source', 'fetching', 'doomed']) atEnd(t, () => remove(id))
  await makeStopped('source', 128, 40)
  for (const id of [...RUNNING, 'doomed']) await mutate('PUT', `/v1/vms/${id}`, guestRequest())
  for (const id of [...RUNNING, 'doomed']) await settled(id, 'running')
  const rootfs = { ...guestImage('rootfs.raw'), url: source.url }
  for (const id of ['sent', 'kept']) await startSnapshot(id, 'source', await stage.begin(`${id}.img.zst`))
  for (const id of ['sent', 'kept'])
    await snapshotIs(id, 'is under way', ({ progress }) => progress.phase === 'sending')
  await mutate(
    'PUT',
    '/v1/vms/fetching',
    guestRequest({ image: { rootfs: { ...rootfs, sha256: 'a'.repeat(64) } } }),
  )

  const bringBack = await hangPool()
  try {
    await answered('DELETE', '/v1/snapshots/sent')
    await answered('DELETE', `/v1/images/${'b'.repeat(64)}`)
    await answered('DELETE', '/v1/vms/doomed')
    await answered('PUT', '/v1/snapshots/late', {
      vm_id: 'first',
      upload: { part_size_mib: 5, part_urls: (await stage.begin('late.img.zst')).partUrls },
    })
    await stops('first')
    await readsAnswer()
    await stops('second')

    await sh('systemctl', 'restart', 'vmhostd')
    assert.equal(await unitProperty('vmhostd', 'Result'), 'success', 'systemd had to kill it')
    await ready()
    await answered('DELETE', `/v1/images/${'c'.repeat(64)}`)
    await stops('third')
    await readsAnswer()
  } finally {
    await bringBack()
  }
  source.finish()
  await remove('fetching')
  for (const id of RUNNING) await settled(id, 'stopped')
  assert.equal(await findSnapshot('sent'), undefined)
  await configure('snapshots', { upload_mbit_per_second: undefined })
  await snapshotIs('kept', 'is completed', ({ status }) => status === 'completed')
  for (const id of ['kept', 'late']) await mutate('DELETE', `/v1/snapshots/${id}`)
  await stagingEmpty()
  assert.equal((await getVm('source')).observed.error, undefined)
})
