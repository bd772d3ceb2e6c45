import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { createBody, makePki, startControllerHost, assertProblem } from './support/controller-host.ts'
import { until } from '../contract/until.ts'
import { typed, vmRequest } from './support/typed.ts'
import { dial, refused, startConsole, TestViewer, watch, WEB } from './support/console-viewer.ts'
import type { TestContext } from 'node:test'
import type { Generation } from '../../src/core/ids.ts'
import type { Observed } from '../../src/core/vm/record.ts'
import type { ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const params = { path: { id: 'web-1' } }
const compute = { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 10 }
const NIGHT = Date.UTC(2030, 0, 1)
const savedState = { savedAtMs: NIGHT, sizeMib: 84, memoryMib: 512 }

/** A host with a VM that sleeps when it is idle, and is asleep. */
async function hostWithSleeper(t: TestContext): Promise<ControllerHost> {
  const host = await startControllerHost(t, pki)
  const created = await typed(host.api.PUT('/v1/vms/{id}', { params, body: vmRequest({ compute }) }))
  assert.equal(created.status, 202, created.text)
  observe(host, { state: 'sleeping', savedState })
  host.pokes.length = 0
  return host
}

function observe({ store }: ControllerHost, observed: Omit<Observed, 'sinceMs'>): void {
  store.vms.recordProgress(WEB, {
    observed: { sinceMs: NIGHT, ...observed },
    observedGeneration: 1 as Generation,
    nowMs: NIGHT,
  })
}

const setPower = (host: ControllerHost, state: 'running' | 'stopped', dry = false) =>
  typed(
    host.api.PUT('/v1/vms/{id}/power', {
      params: { ...params, ...(dry ? { query: { dry_run: true } } : {}) },
      body: { state },
    }),
  )

const get = async ({ api }: ControllerHost) => (await typed(api.GET('/v1/vms/{id}', { params }))).json

test('a VM that sleeps reports its saved state; the list finds it by its state', async (t) => {
  const host = await hostWithSleeper(t)
  const { observed } = await get(host)
  assert.equal(observed.state, 'sleeping')
  assert.deepEqual(observed.saved_state, {
    saved_at: '2030-01-01T00:00:00.000Z',
    size_mib: 84,
    memory_mib: 512,
  })
  const query = { state: 'sleeping' } as const
  const { json } = await typed(host.api.GET('/v1/vms', { params: { query } }))
  assert.deepEqual(
    json.items.map(({ id }) => id),
    ['web-1'],
  )
})

test('a VM that was woken reports when, why and how fast, and the delivered and dropped packets', async (t) => {
  const host = await hostWithSleeper(t)
  observe(host, {
    state: 'running',
    lastTrafficAtMs: NIGHT + 5000,
    lastWake: {
      reason: 'traffic',
      atMs: NIGHT + 5000,
      durationMs: 180.4,
      heldPackets: 2,
      droppedPackets: 0,
    },
  })
  const { observed } = await get(host)
  assert.equal(observed.saved_state, undefined)
  assert.equal(observed.last_traffic_at, '2030-01-01T00:00:05.000Z')
  assert.deepEqual(observed.last_wake, {
    at: '2030-01-01T00:00:05.000Z',
    reason: 'traffic',
    duration_ms: 180,
    held_packets: 2,
    dropped_packets: 0,
  })
})

test('a VM that flaps says so, with its longer idle time; one that may not sleep does not', async (t) => {
  const host = await hostWithSleeper(t)
  observe(host, { state: 'running', shortSleeps: 3 })
  assert.equal((await get(host)).observed.flapping, undefined)
  observe(host, { state: 'running', shortSleeps: 5 })
  assert.deepEqual((await get(host)).observed.flapping, { short_sleeps: 5, sleep_after_idle_seconds: 40 })
  const body = { ...compute, sleep_after_idle_seconds: 0 }
  assert.equal((await typed(host.api.PUT('/v1/vms/{id}/compute', { params, body }))).status, 202)
  assert.equal((await get(host)).observed.flapping, undefined)
})

test('power running wakes a VM that sleeps with 202 and a generation; a repetition is 200 without one', async (t) => {
  const host = await hostWithSleeper(t)
  const { generations } = await get(host)
  const { status, json } = await setPower(host, 'running')
  assert.deepEqual([status, json.desired.power], [202, 'running'])
  assert.deepEqual(json.generations, { desired: generations.desired + 1, observed: generations.observed })
  assert.equal(host.store.vms.get(WEB)?.wake?.reason, 'power')
  assert.deepEqual(host.pokes, ['web-1: power running'])
  const again = await setPower(host, 'running')
  assert.deepEqual([again.status, again.json.generations], [200, json.generations])
})

test('power running for a running VM changes nothing', async (t) => {
  const host = await hostWithSleeper(t)
  observe(host, { state: 'running' })
  const running = await get(host)
  const { status, json } = await setPower(host, 'running')
  assert.deepEqual([status, json], [200, running])
})

test('a dry run of power running wakes no VM', async (t) => {
  const host = await hostWithSleeper(t)
  const { status, json } = await setPower(host, 'running', true)
  assert.deepEqual([status, json.dry_run?.changed, json.dry_run?.changes], [200, true, []])
  assert.deepEqual([host.store.vms.get(WEB)?.wake, host.pokes], [undefined, []])
})

test('an idle timeout of 0 is a change like any other, by compute and by resize', async (t) => {
  const host = await hostWithSleeper(t)
  const body = { ...compute, sleep_after_idle_seconds: 0, disk: { size_mib: 2048 } }
  const { status, json } = await typed(host.api.PUT('/v1/vms/{id}/resize', { params, body }))
  assert.deepEqual([status, json.generations.desired], [202, 2])
  assert.deepEqual(host.pokes, ['web-1: resize'])
})

test('memory of a VM that sleeps does not change', async (t) => {
  const host = await hostWithSleeper(t)
  const body = { ...compute, memory_mib: 256 }
  assertProblem(await typed(host.api.PUT('/v1/vms/{id}/compute', { params, body })), 409, 'vm_not_stopped')
})

test('the commitment to a VM that sleeps stays', async (t) => {
  const host = await hostWithSleeper(t)
  const { capacity, vms } = (await typed(host.api.GET('/v1/sync'))).json
  assert.equal(capacity.memory.committed_guests_mib, 512)
  assert.equal(capacity.disks[0]?.committed_disks_mib, 2048)
  assert.ok((capacity.disks[0]?.committed_saved_mib ?? 0) >= 512, 'a sleep may find no room')
  assert.equal(vms[0]?.state, 'sleeping')
})

test('a shell wakes its VM, and opens when the guest is there', async (t) => {
  const host = await hostWithSleeper(t)
  host.guests.guest('192.0.2.10')
  const viewer = new TestViewer(dial(host, pki, { query: '?mode=ssh' }))
  t.after(() => viewer.socket.terminate())
  await until(
    () => host.pokes,
    ({ length }) => length === 1,
  )
  assert.equal(host.store.vms.get(WEB)?.wake?.reason, 'console')
  observe(host, { state: 'waking' })
  observe(host, { state: 'running' })
  await until(
    () => viewer.texts,
    ({ length }) => length === 1,
  )
  assert.deepEqual(viewer.texts, [{ attached: { mode: 'ssh' } }])
})

test('a shell in a VM that cannot be woken is refused, with where to find the reason', async (t) => {
  const host = await hostWithSleeper(t)
  const asked = refused(host, pki, { query: '?mode=ssh' })
  await until(
    () => host.pokes,
    ({ length }) => length === 1,
  )
  const fault = {
    code: 'saved_state_corrupt',
    step: 'monitor.ensure-restored',
    message: 'the saved state of web-1 is damaged',
    generation: 1 as Generation,
    sinceMs: NIGHT,
    attempt: 1,
    nextAttemptAtMs: NIGHT + 1000,
  } as const
  observe(host, { state: 'sleeping', savedState, fault })
  const { status, code, detail } = (await asked).json
  assert.deepEqual([status, code], [409, 'vm_not_running'])
  assert.match(detail, /web-1 is sleeping: it was asked to wake and did not; observed\.error says why/)
  const { observed } = await get(host)
  assert.match(observed.error ?? '', /the saved state of web-1 is damaged/)
  assert.ok(observed.saved_state !== undefined, 'and it is kept')
})

test('the serial console of a VM that sleeps continues with its history, says that it sleeps, and does not wake it', async (t) => {
  const host = await hostWithSleeper(t)
  const session = await startConsole(host)
  session.say(Buffer.from('before it fell asleep'))
  const viewer = await watch(t, host, pki)
  await viewer.shows('before it fell asleep')
  viewer.type('hello?')
  await until(
    () => session.terminal.typed,
    (text) => text === 'hello?',
  )
  assert.deepEqual([host.pokes, host.store.vms.get(WEB)?.wake], [[], undefined])
  observe(host, { state: 'waking' })
  observe(host, { state: 'running' })
  await viewer.message(2)
  assert.deepEqual(viewer.texts.slice(1), [{ guest: { state: 'sleeping' } }, { guest: { state: 'running' } }])
})

test('after a reboot of the host, the console of a VM that sleeps appears with its wake', async (t) => {
  const host = await hostWithSleeper(t)
  const { json } = await refused(host, pki)
  assert.equal(json.code, 'vm_not_running')
  assert.match(json.detail, /web-1 is sleeping: start it, or follow its console to wait for its wake/)
  const viewer = await watch(t, host, pki, { query: '?follow=true' })
  assert.deepEqual(viewer.texts, [{ waiting: { for: 'start' } }])
  await startConsole(host)
  assert.equal((await viewer.message(1)).attached.mode, 'tty')
})

test('a VM is kept awake without a change of its desired state; a rehearsal shows that and stores nothing', async (t) => {
  const host = await hostWithSleeper(t)
  const time = new Date(NIGHT + 600_000).toISOString()
  const keep = (body: { until: string | null }, query: { dry_run?: true } = {}) =>
    typed(host.api.PUT('/v1/vms/{id}/keep-awake', { params: { ...params, query }, body }))
  const rehearsed = await keep({ until: time }, { dry_run: true })
  assert.deepEqual(rehearsed.json.dry_run?.changes, [{ pointer: '/keep_awake_until', to: time }])
  assert.equal((await get(host)).keep_awake_until, undefined)
  const kept = await keep({ until: time })
  assert.deepEqual([kept.status, kept.json.keep_awake_until], [202, time])
  assert.match(kept.json.operation_id ?? '', /^op-/)
  assert.deepEqual(kept.json.generations, { desired: 1, observed: 1 })
  assert.equal((await keep({ until: time })).status, 200)
  const ending = await keep({ until: null }, { dry_run: true })
  assert.deepEqual(ending.json.dry_run?.changes, [{ pointer: '/keep_awake_until', from: time }])
  assert.equal(ending.json.keep_awake_until, undefined, 'shown as it would be')
  assert.equal((await get(host)).keep_awake_until, time)
  assert.equal((await keep({ until: null })).json.keep_awake_until, undefined)
})

test('a time to stay awake that is malformed, past or far ahead is refused with its place', async (t) => {
  const host = await hostWithSleeper(t)
  for (const time of ['tomorrow', '2020-01-01T00:00:00Z', '2999-01-01T00:00:00Z']) {
    const { status, json } = await host.call({
      method: 'PUT',
      path: '/v1/vms/web-1/keep-awake',
      body: { until: time },
    })
    assert.deepEqual([status, json.code, json.errors?.[0]?.pointer], [400, 'invalid_request', '/until'], time)
  }
})

test('a VM shows since when its agent is seen, and that it is ready since then', async (t) => {
  const host = await hostWithSleeper(t)
  assert.equal((await get(host)).observed.guest, undefined)
  host.store.vms.setGuestSeen(WEB, { agentSinceMs: NIGHT }, NIGHT)
  const since = '2030-01-01T00:00:00.000Z'
  assert.deepEqual((await get(host)).observed.guest, { agent_since: since, ready_since: since })
})

test('a check is desired state: it raises a generation, and only what that check found makes the guest ready', async (t) => {
  const host = await hostWithSleeper(t)
  const check = { protocol: 'http', port: 80, path: '/healthz' } as const
  const set = (body: { check: typeof check | null }) =>
    typed(host.api.PUT('/v1/vms/{id}/readiness', { params, body }))
  const { status, json } = await set({ check })
  assert.deepEqual([status, json.generations.desired, json.desired.readiness], [202, 2, check])
  assert.equal((await set({ check })).status, 200)
  host.store.vms.setGuestSeen(
    WEB,
    { agentSinceMs: NIGHT, checked: { by: check, because: 'GET /healthz on port 80: status 503' } },
    NIGHT,
  )
  const since = '2030-01-01T00:00:00.000Z'
  assert.deepEqual((await get(host)).observed.guest, {
    agent_since: since,
    not_ready: 'GET /healthz on port 80: status 503',
  })
  assert.equal((await set({ check: null })).json.desired.readiness, undefined)
  assert.deepEqual((await get(host)).observed.guest, { agent_since: since, ready_since: since })
})

test('a check of a VM without an address, or one that is malformed, is refused with its place', async (t) => {
  const host = await hostWithSleeper(t)
  const bare = createBody({ network: undefined, readiness: { protocol: 'tcp', port: 22 } })
  const put = (path: string, body: unknown) => host.call({ method: 'PUT', path, body })
  const { status, json } = await put('/v1/vms/web-2', bare)
  assert.deepEqual([status, json.errors?.[0]?.pointer], [400, '/readiness'])
  for (const check of [
    { protocol: 'udp', port: 53 },
    { protocol: 'http', port: 0 },
    { protocol: 'http', port: 80, path: 'x y' },
  ])
    assert.equal((await put('/v1/vms/web-1/readiness', { check })).status, 400, JSON.stringify(check))
})

test('a check by TCP with a path, which it would not ask for, is refused at both requests', async (t) => {
  const host = await hostWithSleeper(t)
  const check = { protocol: 'tcp', port: 22, path: '/healthz' } as const
  const put = (path: string, body: unknown) => host.call({ method: 'PUT', path, body })
  const set = await put('/v1/vms/web-1/readiness', { check })
  assert.deepEqual([set.status, set.json.errors?.[0]?.pointer], [400, '/check/path'])
  assert.match(set.json.detail, /\/check\/path is only for http/)
  const made = await put('/v1/vms/web-2', createBody({ readiness: check }))
  assert.deepEqual([made.status, made.json.errors?.[0]?.pointer], [400, '/readiness/path'])
})
