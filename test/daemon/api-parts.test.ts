import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import type { VmId } from '../../src/core/ids.ts'
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

const compute = { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 0 }

test('a limit of the disk that a request leaves out stays, and null removes it', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const disk = { size_mib: 2048, iops_max: 500, mib_per_second_max: 100 }
  assert.deepEqual((await put(host, '/disk', disk)).json.desired.disk, disk)
  assert.equal((await put(host, '/disk', { size_mib: 2048 })).status, 200)
  const { iops_max: _lifted, ...rest } = disk
  assert.deepEqual((await put(host, '/disk', { iops_max: null })).json.desired.disk, rest)
  assertProblem(await put(host, '/disk', { size_mib: null }), 400, 'invalid_request')
})

test('a wake that is guaranteed stays so until a request takes that back', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const guaranteed = { ...compute, wake: 'guaranteed' }
  assert.deepEqual((await put(host, '/compute', guaranteed)).json.desired.compute, guaranteed)
  assert.equal((await put(host, '/compute', compute)).status, 200)
  const resized = await put(host, '/resize', { ...compute, disk: { size_mib: 4096 } })
  assert.equal(resized.json.desired.compute.wake, 'guaranteed')
  assertProblem(await put(host, '/compute', { ...compute, wake: 'never' }), 400, 'invalid_request')
  assert.deepEqual((await put(host, '/compute', { ...compute, wake: null })).json.desired.compute, compute)
})

test('what follows from an exit changes member by member, and null is the default', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host, { restart_policy: 'on_failure' })
  const exitOf = ({ json: { desired } }: Answer) => [
    desired.restart_policy,
    desired.delete_after_seconds,
    desired.delete_on_exit,
  ]
  const later = await put(host, '/exit', { delete_after_seconds: 60 })
  assert.deepEqual(exitOf(later), ['on_failure', 60, undefined])
  const both = await put(host, '/exit', { delete_on_exit: true, delete_after_seconds: null })
  assert.deepEqual(exitOf(both), ['on_failure', undefined, true])
  assert.equal((await put(host, '/exit', {})).status, 200)
  const none = await put(host, '/exit', { restart_policy: null, delete_on_exit: null })
  assert.deepEqual([none.status, ...exitOf(none)], [202, undefined, undefined, undefined])
})

test('each stored change says where to watch it, and the deletion of a VM that is gone answers 204', async (t) => {
  const host = await startControllerHost(t, pki)
  const remove = (): Promise<Answer> => host.call({ method: 'DELETE', path })
  const stored = [await create(host), await put(host, '/power', { state: 'stopped' }), await remove()]
  assert.deepEqual(
    stored.map(({ status, headers }) => [status, headers['location']]),
    stored.map(() => [202, path]),
  )
  const again = await remove()
  assert.deepEqual([again.status, again.headers['location']], [200, undefined])
  host.store.vms.forget('web-1' as VmId, 0)
  const gone = await remove()
  assert.deepEqual([gone.status, gone.text], [204, ''])
  const never = await host.call({
    method: 'DELETE',
    path: '/v1/vms/web-9?dry_run=true',
    headers: { 'if-match': '"7"' },
  })
  assert.equal(never.status, 204)
})
