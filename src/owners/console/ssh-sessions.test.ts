import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { silentLog } from '../../log/log.ts'
import { Store } from '../../store/store.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeGuestShells, fakeHostKey } from '../../../test/fakes/fake-guest-shells.ts'
import { until } from '../../../test/contract/until.ts'
import { SshSessions } from './ssh-sessions.ts'
import type { TestContext } from 'node:test'
import type { Generation, MacAddress, OperationId, Sha256, UserId, VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { Fault, Observed, VmRecord } from '../../core/vm/record.ts'
import type { FakeGuest } from '../../../test/fakes/fake-guest-shells.ts'
import type { SessionEnd, SshSession } from './ssh-session.ts'
import type { SessionRequest } from './ssh-sessions.ts'

const web = 'web-1' as VmId
const ADDRESS = '192.0.2.10'
const window = { cols: 80, rows: 24 }
const never = new AbortController().signal

type Addresses = { readonly ipv4Address?: string; readonly ipv6Address?: string }

/** Sessions on a real store and guests in memory, with one running VM. */
class Stage {
  readonly directory = mkdtempSync(join(tmpdir(), 'vmhostd-ssh-'))
  /** While set, a flush of the store waits for this promise. */
  disk: Promise<void> | undefined
  readonly store = new Store(
    this.directory,
    { first: 600_000, count: 3 },
    { datasync: async () => this.disk },
  )
  readonly shells = new FakeGuestShells()
  readonly guest: FakeGuest = this.shells.guest(ADDRESS)
  readonly clock = new FakeClock()
  /** VMs that were asked to wake. */
  readonly woken: VmId[] = []
  readonly sessions = new SshSessions({
    shells: this.shells,
    store: this.store,
    clock: this.clock,
    wake: (id) => this.woken.push(id),
    log: silentLog,
  })

  constructor(t: TestContext, addresses: Addresses = { ipv4Address: ADDRESS, ipv6Address: '2001:db8::10' }) {
    t.after(() => {
      this.store.close()
      rmSync(this.directory, { recursive: true })
    })
    this.make(1000, addresses)
  }

  make(nowMs: number, addresses: Addresses = { ipv4Address: ADDRESS }): void {
    this.store.vms.insert({
      id: web,
      userId: this.store.vms.freeUserId() as UserId,
      monitor: 'qemu',
      desired: {
        power: 'running',
        compute: { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 },
        disk: { sizeMib: 64 },
        image: { rootfsSha256: 'a'.repeat(64) as Sha256, kernelSha256: 'b'.repeat(64) as Sha256 },
        network: { macAddress: '02:00:00:00:00:01' as MacAddress, ...addresses },
      },
      metadata: { labels: {}, protected: false },
      inputs: { request: '{}', sources: new Map(), sshAuthorizedKeys: [] },
      operationId: 'op-1' as OperationId,
      nowMs,
    })
    this.observe({ state: 'running', startedAtMs: 1500 })
  }

  observe(observed: Omit<Observed, 'sinceMs'>): void {
    this.store.vms.recordProgress(web, { observed: { sinceMs: 1000, ...observed }, nowMs: 2000 })
  }

  remove(): void {
    this.store.vms.changeDesired(web, { deleting: true, operationId: 'op-2' as OperationId, nowMs: 3000 })
    this.store.vms.forget(web, 0)
  }

  get record(): VmRecord {
    const record = this.store.vms.get(web)
    assert.ok(record !== undefined)
    return record
  }

  ask(changes: Partial<SessionRequest> = {}, signal = never) {
    return this.sessions.open(
      { record: this.record, user: 'root', window, of: 'controller', ...changes },
      signal,
    )
  }

  async opened(changes: Partial<SessionRequest> = {}): Promise<SshSession> {
    const result = await this.ask(changes)
    assert.ok(result.ok, result.ok ? '' : result.error.kind)
    return result.value
  }

  async refusal(changes: Partial<SessionRequest> = {}) {
    const result = await this.ask(changes)
    return result.ok ? 'a session' : result.error
  }
}

/** Waits until everything that needs only its turn has run. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate)
}

const faultAt = (nextAttemptAtMs: number): Fault => ({
  code: 'restore_failed',
  step: 'monitor.ensure-restored',
  message: 'restoring web-1: no',
  generation: 1 as Generation,
  sinceMs: 1000,
  attempt: 1,
  nextAttemptAtMs,
})

function endsOf(session: SshSession): SessionEnd[] {
  const ends: SessionEnd[] = []
  session.attach({ onOutput: () => {}, onEnd: (end) => ends.push(end) })
  return ends
}

test('the first host key of a guest is pinned, and from then on no other will do', async (t) => {
  const stage = new Stage(t)
  const first = stage.guest.hostKey
  ;(await stage.opened()).close()
  assert.equal(stage.store.sshHostKeys.get(web), first)
  ;(await stage.opened()).close()
  stage.guest.hostKey = fakeHostKey(7)
  const changed = { kind: 'host_key_changed', offered: fakeHostKey(7), pinned: first }
  assert.deepEqual(await stage.refusal(), changed)
  assert.equal(stage.store.sshHostKeys.get(web), first)
})

test('only the key that the viewer names is accepted, and it is pinned then', async (t) => {
  const stage = new Stage(t)
  const first = stage.guest.hostKey
  ;(await stage.opened()).close()
  stage.guest.hostKey = fakeHostKey(7)
  const other = await stage.refusal({ acceptHostKey: fakeHostKey(8) })
  assert.deepEqual(other, { kind: 'host_key_changed', offered: fakeHostKey(7), pinned: first })
  ;(await stage.opened({ acceptHostKey: fakeHostKey(7) })).close()
  assert.equal(stage.store.sshHostKeys.get(web), fakeHostKey(7))
  ;(await stage.opened()).close()
})

test('no byte of a shell is available before the pin is on the disk', async (t) => {
  const stage = new Stage(t)
  await stage.store.flushed()
  const disk = Promise.withResolvers<void>()
  stage.disk = disk.promise
  const seen = { session: false }
  const opening = stage.opened().then((session) => {
    seen.session = true
    return session
  })
  await until(
    () => stage.guest.shells.length,
    (count) => count === 1,
  )
  await settle()
  assert.equal(seen.session, false)
  disk.resolve()
  ;(await opening).close()
})

test('a VM that stops while the pin goes to the disk ends the session that is made', async (t) => {
  const stage = new Stage(t)
  await stage.store.flushed()
  const disk = Promise.withResolvers<void>()
  stage.disk = disk.promise
  const opening = stage.opened()
  await until(
    () => stage.store.sshHostKeys.get(web),
    (pin) => pin !== undefined,
  )
  stage.observe({ state: 'stopped' })
  disk.resolve()
  assert.deepEqual(endsOf(await opening), [{ kind: 'vm_stopped' }])
})

test('a login that fails pins nothing', async (t) => {
  const stage = new Stage(t)
  const refusal = await stage.refusal({ user: 'nobody' })
  assert.equal(refusal === 'a session' ? refusal : refusal.kind, 'key_refused')
  assert.equal(stage.store.sshHostKeys.get(web), undefined)
})

test('of two first connections that see different keys, only one is let in', async (t) => {
  const stage = new Stage(t)
  const release = stage.shells.holdNext()
  const slow = stage.ask()
  ;(await stage.opened()).close()
  stage.guest.hostKey = fakeHostKey(7)
  release()
  const result = await slow
  assert.equal(result.ok ? 'a session' : result.error.kind, 'host_key_changed')
  assert.equal(stage.guest.shells.length, 2)
  assert.ok(stage.guest.shells.every(({ isClosed }) => isClosed))
})

test('a VM that was deleted and created again meanwhile is not the one that was asked for', async (t) => {
  const stage = new Stage(t)
  const release = stage.shells.holdNext()
  const slow = stage.ask()
  stage.remove()
  stage.make(4000)
  release()
  const result = await slow
  assert.equal(result.ok ? 'a session' : result.error.kind, 'vm_not_running')
  assert.equal(stage.store.sshHostKeys.get(web), undefined)
  assert.equal(stage.guest.shells.at(-1)?.isClosed, true)
})

for (const state of ['stopped', 'starting', 'paused', 'failed', 'pending'] as const) {
  test(`a VM that is ${state} is not asked`, async (t) => {
    const stage = new Stage(t)
    stage.observe({ state })
    assert.deepEqual(await stage.refusal(), { kind: 'vm_not_running', state })
  })
}

for (const state of ['sleeping', 'waking'] as const) {
  test(`a VM that is ${state} is woken, and asked when it is back`, async (t) => {
    const stage = new Stage(t)
    stage.observe({ state })
    const opening = stage.opened()
    assert.deepEqual(stage.woken, [web])
    stage.observe({ state: 'waking', startedAtMs: 8000 })
    await settle()
    assert.equal(stage.guest.shells.length, 0, 'no shell is open yet')
    stage.observe({ state: 'running', startedAtMs: 8000 })
    const session = await opening
    assert.deepEqual(endsOf(session), [])
    session.close()
  })
}

test('a VM that is awake is not asked to wake', async (t) => {
  const stage = new Stage(t)
  ;(await stage.opened()).close()
  assert.deepEqual(stage.woken, [])
})

test('a wake that fails refuses the shell at once; a fault from before does not', async (t) => {
  const stage = new Stage(t)
  stage.observe({ state: 'sleeping', fault: faultAt(5000) })
  const asked = stage.refusal()
  stage.observe({ state: 'waking', fault: faultAt(5000) })
  await settle()
  assert.equal(stage.sessions.taken(web), 1, 'it waits')
  stage.observe({ state: 'sleeping', fault: faultAt(9000) })
  assert.deepEqual(await asked, { kind: 'vm_not_running', state: 'sleeping' })
  assert.equal(stage.sessions.taken(web), 0)
})

test('the wait for a wake is bounded, and ends when its VM is stopped or its viewer is gone', async (t) => {
  const stage = new Stage(t)
  stage.observe({ state: 'sleeping' })
  const late = stage.refusal()
  stage.clock.advance(limits.sshWakeMs)
  assert.deepEqual(await late, { kind: 'timed_out', detail: 'web-1 was not awake after 30 s' })
  const held = stage.refusal()
  stage.observe({ state: 'sleeping', waitingFor: 'the end of maintenance' })
  stage.clock.advance(limits.sshWakeMs)
  const detail = 'web-1 was not awake after 30 s: it waits for the end of maintenance'
  assert.deepEqual(await held, { kind: 'timed_out', detail })
  const stopped = stage.refusal()
  stage.observe({ state: 'stopped' })
  assert.deepEqual(await stopped, { kind: 'vm_not_running', state: 'stopped' })
  stage.observe({ state: 'sleeping' })
  const leaving = new AbortController()
  const left = stage.ask({}, leaving.signal)
  leaving.abort(new Error('the viewer left'))
  await assert.rejects(left, /the viewer left/)
  const removed = stage.refusal()
  stage.remove()
  assert.deepEqual(await removed, { kind: 'vm_not_running', state: 'sleeping' })
  assert.equal(stage.clock.nextMs(), undefined, 'no timer is left')
})

test('a shell goes on over a sleep of its VM, and ends with the start after that', async (t) => {
  const stage = new Stage(t)
  const ends = endsOf(await stage.opened())
  stage.observe({ state: 'sleeping' })
  stage.observe({ state: 'waking', startedAtMs: 8000 })
  stage.observe({ state: 'running', startedAtMs: 8000 })
  assert.deepEqual(ends, [])
  stage.observe({ state: 'running', startedAtMs: 9000 })
  assert.deepEqual(ends, [{ kind: 'vm_stopped' }])
})

test('IPv4 goes before IPv6, and a VM without either has no address', async (t) => {
  const six = new Stage(t, { ipv6Address: '2001:db8::10' })
  six.shells.guest('2001:db8::10')
  ;(await six.opened()).close()
  const both = new Stage(t)
  ;(await both.opened()).close()
  assert.equal(both.guest.shells.length, 1)
  assert.deepEqual(await new Stage(t, {}).refusal(), { kind: 'no_address' })
})

test('a VM has a bounded number of places; each comes back however its session ends, or never begins', async (t) => {
  const stage = new Stage(t)
  const sessions: SshSession[] = []
  for (let count = 0; count < limits.consoleViewersMax; count += 1) sessions.push(await stage.opened())
  assert.deepEqual(await stage.refusal(), { kind: 'full', taken: limits.consoleViewersMax })
  sessions[0]?.close()
  sessions[0]?.close()
  const [, second] = stage.guest.shells
  const ends = sessions[1] === undefined ? [] : endsOf(sessions[1])
  second?.end({ kind: 'exited', status: 3 })
  assert.deepEqual(ends, [{ kind: 'exited', status: 3 }])
  assert.equal(stage.sessions.taken(web), limits.consoleViewersMax - 2)
  await stage.refusal({ user: 'nobody' })
  const leaving = new AbortController()
  stage.shells.holdNext()
  const left = stage.ask({}, leaving.signal)
  assert.equal(stage.sessions.taken(web), limits.consoleViewersMax - 1, 'held while it connects')
  leaving.abort(new Error('the viewer left'))
  await assert.rejects(left, /the viewer left/)
  assert.equal(stage.sessions.taken(web), limits.consoleViewersMax - 2)
})

const RELEASED = {
  id: 'move-7',
  node: 'host-2',
  mode: 'live',
  stage: 'released',
  sinceMs: 3000,
} as Departure

type Over = readonly [string, (stage: Stage) => void, SessionEnd]

const overs: readonly Over[] = [
  ['the VM stops', (stage) => stage.observe({ state: 'stopped' }), { kind: 'vm_stopped' }],
  [
    'the VM was started again',
    (stage) => stage.observe({ state: 'running', startedAtMs: 9000 }),
    { kind: 'vm_stopped' },
  ],
  [
    'the VM is at another host',
    ({ store }) => store.departures.set(web, RELEASED, 3000),
    { kind: 'vm_moved', node: RELEASED.node },
  ],
  ['the VM is gone', (stage) => stage.remove(), { kind: 'vm_deleted' }],
  ['the daemon stops', (stage) => stage.sessions.end(), { kind: 'daemon_stops' }],
]
for (const [what, happen, end] of overs) {
  test(`a session ends when ${what}, also before its viewer is attached`, async (t) => {
    const stage = new Stage(t)
    const [attached, early] = [await stage.opened(), await stage.opened()]
    const ends = endsOf(attached)
    happen(stage)
    assert.deepEqual(ends, [end])
    assert.deepEqual(endsOf(early), [end])
    assert.ok(stage.guest.shells.every(({ isClosed }) => isClosed))
    assert.equal(stage.sessions.taken(web), 0)
  })
}

test('a change of the VM that leaves its guest running leaves its sessions', async (t) => {
  const stage = new Stage(t)
  const ends = endsOf(await stage.opened())
  stage.observe({ state: 'paused', startedAtMs: 1500 })
  stage.observe({ state: 'failed' })
  stage.observe({ state: 'running', startedAtMs: 1500 })
  assert.deepEqual(ends, [])
})

test('a daemon that stops ends connections that are being made, and makes no new ones', async (t) => {
  const stage = new Stage(t)
  stage.shells.holdNext()
  const connecting = stage.refusal()
  stage.sessions.end()
  assert.deepEqual(await connecting, { kind: 'daemon_stops' })
  assert.deepEqual(await stage.refusal(), { kind: 'daemon_stops' })
})
