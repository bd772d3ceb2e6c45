import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeGuestProbes } from '../../../test/fakes/fake-guest-probes.ts'
import { IDLE_MS, sleepStage } from '../../../test/sleep-stage.ts'
import { limits } from '../../config/limits.ts'
import { setReadiness } from '../../commands/vm/reshape.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { HostFault } from '../../core/errors.ts'
import { GuestLooks } from './guest-looks.ts'
import { silentLog } from '../../log/log.ts'
import type { ReadinessCheck } from '../../core/desired.ts'
import type { VmId } from '../../core/ids.ts'
import type { TestContext } from 'node:test'

async function stage(t: TestContext) {
  const base = await sleepStage(t)
  const { store, host, context, id, clock, turns, idle, vm } = base
  const probes = new FakeGuestProbes()
  const looks = new GuestLooks({ store, host, probes, log: silentLog })
  t.after(() => looks.stop())
  looks.start()
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms)
    await turns()
    await idle()
  }
  const asks = async (check: ReadinessCheck | undefined): Promise<void> => {
    setReadiness(context, id, check)
    await idle()
    await turns()
  }
  return { ...base, asks, probes, looks, pass, seen: () => vm().guest }
}

test('an agent is on record since the look that found it, with a new revision and no new generation', async (t) => {
  const { host, id, vm, clock, pass, seen } = await stage(t)
  await pass(limits.guestLookMsMin)
  assert.equal(seen(), undefined)
  const { revision, generations } = vm()
  host.monitor.agents.add(id)
  await pass(limits.guestLookMsMin * 2)
  assert.deepEqual(seen(), { agentSinceMs: clock.now() })
  assert.ok(vm().revision > revision)
  assert.deepEqual(vm().generations, generations)
})

test('an agent that is gone for two looks, and not for one or for a failed one, is forgotten', async (t) => {
  const { host, id, pass, seen, receive } = await stage(t)
  host.monitor.agents.add(id)
  await pass(limits.guestLookMsMin)
  host.monitor.failNext('agentListens', new HostFault('monitor_unreachable', 'asking'))
  await pass(limits.guestLookMsMax)
  assert.ok(seen() !== undefined)
  host.monitor.agents.delete(id)
  receive('keeps it awake')
  await pass(limits.guestLookMsMax)
  assert.ok(seen() !== undefined)
  await pass(limits.guestLookMsMin)
  assert.equal(seen(), undefined)
})

test('what was seen stays while the guest sleeps, no look wakes it, and a stop ends it', async (t) => {
  const { host, context, id, pass, seen, shown, idle, turns, receive } = await stage(t)
  host.monitor.agents.add(id)
  await pass(limits.guestLookMsMin)
  const before = seen()
  assert.ok(before !== undefined)
  await pass(IDLE_MS)
  assert.equal(shown(), 'sleeping')
  for (let look = 0; look < 5; look += 1) await pass(limits.guestLookMsMax)
  assert.deepEqual([shown(), seen()], ['sleeping', before])
  receive('wakes it')
  await idle()
  assert.deepEqual([shown(), seen()], ['running', before])
  setPower(context, id, 'stopped')
  await idle()
  await turns()
  assert.deepEqual([shown(), seen()], ['stopped', undefined])
})

test('another daemon goes on with what the earlier one saw', async (t) => {
  const { store, host, id, probes, looks, pass, seen } = await stage(t)
  host.monitor.agents.add(id)
  await pass(limits.guestLookMsMin)
  const before = seen()
  looks.stop()
  const next = new GuestLooks({ store, host, probes, log: silentLog })
  t.after(() => next.stop())
  next.start()
  await pass(limits.guestLookMsMin)
  assert.deepEqual(seen(), before)
  host.monitor.agents.delete(id)
  await pass(limits.guestLookMsMax)
  await pass(limits.guestLookMsMin)
  assert.equal(seen(), undefined)
})

test('what was seen of a guest that ended while nothing looked is dropped at the next start', async (t) => {
  const { store, host, context, id, probes, looks, pass, seen, shown, idle } = await stage(t)
  host.monitor.agents.add(id)
  await pass(limits.guestLookMsMin)
  looks.stop()
  setPower(context, id, 'stopped')
  await idle()
  assert.equal(shown(), 'stopped')
  assert.ok(seen() !== undefined)
  const next = new GuestLooks({ store, host, probes, log: silentLog })
  t.after(() => next.stop())
  next.start()
  assert.equal(seen(), undefined)
})

test('another daemon looks into guests that have run for long at random times, and later into groups of them', async (t) => {
  const { store, host, probes, clock, looks, createAnother, idle, turns, receive } = await stage(t)
  looks.stop()
  createAnother(11)
  await idle()
  clock.advance(limits.guestLookMsMax)
  receive('keeps it awake')
  const randoms = [0.1, 0.11]
  const startMs = clock.monotonicMs()
  const dueMs: number[] = []
  const next = new GuestLooks({
    store,
    host: {
      monitors: host.monitors,
      clock: {
        now: () => clock.now(),
        monotonicMs: () => clock.monotonicMs(),
        after: (ms, callback) => {
          dueMs.push(clock.monotonicMs() + ms - startMs)
          return clock.after(ms, callback)
        },
        random: () => randoms.shift() ?? 0,
      },
    },
    probes,
    log: silentLog,
  })
  t.after(() => next.stop())
  next.start()
  const { guestLookMsMin: min } = limits
  // Four looks have begun in half a minute, and the next is 16 times the shortest time away.
  assert.deepEqual(dueMs.splice(0), [2.5 * min, 2.65 * min])
  clock.advance(3 * min)
  await turns()
  const [one, other] = dueMs
  assert.ok(one !== undefined && one > 30 * min)
  assert.equal(other, one)
})

test('a record that cannot be read does not keep a daemon from looking into other guests', async (t) => {
  const { store, host, id, probes, looks, createAnother, idle, turns, clock } = await stage(t)
  looks.stop()
  createAnother(11)
  await idle()
  const other = 'web-11' as VmId
  host.monitor.agents.add(other)
  const next = new GuestLooks({
    store: {
      onVmChange: (listener) => store.onVmChange(listener),
      vms: {
        states: () => store.vms.states(),
        get: (asked) => {
          if (asked === id) throw new SyntaxError('Unexpected end of JSON input')
          return store.vms.get(asked)
        },
        setGuestSeen: (...seen) => store.vms.setGuestSeen(...seen),
      },
    },
    host,
    probes,
    log: silentLog,
  })
  t.after(() => next.stop())
  next.start()
  clock.advance(limits.guestLookMsMin)
  await turns()
  assert.ok(store.vms.get(other)?.guest?.agentSinceMs !== undefined)
})

const http = { protocol: 'http', port: 80, path: '/healthz' } as const
const PLACE = '192.0.2.10 80'

test('a guest is ready when its check succeeds, and not ready when the check has failed for some times', async (t) => {
  const { asks, clock, probes, pass, seen, receive } = await stage(t)
  await asks(http)
  await pass(limits.guestLookMsMin)
  assert.deepEqual(seen(), { checked: { by: http, because: 'connect to port 80: ECONNREFUSED' } })
  probes.serving.set(PLACE, { '/healthz': 200 })
  await pass(2 * limits.guestLookMsMin)
  const isReady = { checked: { by: http, readySinceMs: clock.now() } }
  assert.deepEqual(seen(), isReady)
  receive('keeps it awake')
  probes.serving.set(PLACE, { '/healthz': 503 })
  await pass(limits.readinessLookMsMax)
  for (let miss = 2; miss < limits.readinessMissesMin; miss += 1) await pass(limits.guestLookMsMin)
  assert.deepEqual(seen(), isReady)
  await pass(limits.guestLookMsMin)
  assert.deepEqual(seen(), { checked: { by: http, because: 'GET /healthz on port 80: status 503' } })
})

test('another check begins again, and a look that was under way does not count for it', async (t) => {
  const { asks, probes, pass, seen } = await stage(t)
  probes.serving.set(PLACE, { '/healthz': 200 })
  await asks(http)
  await pass(limits.guestLookMsMin)
  assert.ok(seen()?.checked?.readySinceMs !== undefined)
  const other = { protocol: 'http', port: 80 } as const
  await asks(other)
  await pass(limits.guestLookMsMin)
  assert.deepEqual(seen()?.checked, { by: other, because: 'GET / on port 80: status 404' })
  await asks(undefined)
  await pass(limits.guestLookMsMin)
  assert.equal(seen(), undefined)
})

test('a guest that sleeps is not asked, and neither woken nor kept awake by its check', async (t) => {
  const { asks, vm, clock, probes, pass, shown } = await stage(t)
  probes.serving.set(PLACE, { '/healthz': 200 })
  await asks(http)
  const { generations } = vm()
  assert.deepEqual(generations, { desired: 2, observed: 2 })
  for (let beganMs = clock.now(); clock.now() < beganMs + IDLE_MS;) await pass(limits.readinessLookMsMax)
  assert.equal(shown(), 'sleeping')
  const asked = probes.asked.length
  assert.ok(asked > 3)
  for (let look = 0; look < 5; look += 1) await pass(limits.readinessLookMsMax)
  assert.deepEqual([shown(), probes.asked.length], ['sleeping', asked])
})
