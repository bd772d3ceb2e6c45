import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IDLE_MS, sleepStage } from '../../../test/sleep-stage.ts'
import { limits } from '../../config/limits.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { HostFault } from '../../core/errors.ts'
import { GuestLooks } from './guest-looks.ts'
import { silentLog } from '../../log/log.ts'
import type { TestContext } from 'node:test'

async function stage(t: TestContext) {
  const base = await sleepStage(t)
  const { store, host, clock, turns, idle, vm } = base
  const looks = new GuestLooks({ store, host, log: silentLog })
  t.after(() => looks.stop())
  looks.start()
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms)
    await turns()
    await idle()
  }
  return { ...base, looks, pass, seen: () => vm().guest }
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
  const { store, host, id, looks, pass, seen } = await stage(t)
  host.monitor.agents.add(id)
  await pass(limits.guestLookMsMin)
  const before = seen()
  looks.stop()
  const next = new GuestLooks({ store, host, log: silentLog })
  t.after(() => next.stop())
  next.start()
  await pass(limits.guestLookMsMin)
  assert.deepEqual(seen(), before)
  host.monitor.agents.delete(id)
  await pass(limits.guestLookMsMax)
  await pass(limits.guestLookMsMin)
  assert.equal(seen(), undefined)
})
