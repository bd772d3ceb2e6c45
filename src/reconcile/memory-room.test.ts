import assert from 'node:assert/strict'
import { test } from 'node:test'
import { breakRecord } from '../../test/break-record.ts'
import { lockStore } from '../../test/locked-store.ts'
import { memoryStage, named } from '../../test/memory-stage.ts'
import { IDLE_MS, SLEEPER } from '../../test/sleep-stage.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { setCompute } from '../commands/vm/reshape.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { keepAwake } from '../commands/vm/wake-vm.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import type { CommandResult } from '../commands/context.ts'

/** Returns the code of a refusal; undefined if the change was accepted. */
function refusalOf(result: CommandResult): string | undefined {
  return result.ok || !('code' in result.error) ? undefined : result.error.code
}

test('a wake beyond the memory of the host waits in order, and says its place', async (t) => {
  const { receive, states, places, one, heldMib } = await memoryStage(t, 1)
  await receive(2)
  await receive(3)
  await receive(1)
  assert.equal(states(), 'waking running waking')
  assert.deepEqual(places(), [2, undefined, 1])
  assert.equal(one(3).observed.waitingFor, 'memory')
  assert.equal(one(3).observed.memoryQueue?.missingMib, SLEEPER.memoryMib)
  assert.equal(heldMib(), SLEEPER.memoryMib)
})

test('a look at a VM that sleeps on does not sum over all VMs, and a wake does', async (t) => {
  const { store, receive, later, states } = await memoryStage(t, 1)
  const sums = t.mock.method(store.vms, 'recorded')
  await later(limits.resyncMs)
  assert.equal(sums.mock.callCount(), 0)
  await receive(2)
  assert.equal(states(), 'sleeping running sleeping')
  assert.ok(sums.mock.callCount() > 0)
})

test('an idle VM sleeps early to make room, and the queue goes on in order without a packet lost', async (t) => {
  const { receive, states, later, host, one, heldMib, passes } = await memoryStage(t, 1)
  await receive(2)
  await receive(3)
  await receive(1)
  const earlyMs = IDLE_MS * limits.earlySleepShare
  await later(earlyMs - 1)
  assert.equal(states(), 'waking running waking')
  await passes()
  assert.equal(states(), 'waking sleeping running')
  assert.deepEqual(host.traffic.given(one(3).host.userId), ['packet for 3'])
  await later(earlyMs)
  await passes()
  assert.equal(states(), 'running sleeping sleeping')
  assert.deepEqual(host.traffic.given(one(1).host.userId), ['packet for 1'])
  assert.equal(heldMib(), SLEEPER.memoryMib)
})

test('a VM that is kept awake does not sleep early, and takes no place of one that may', async (t) => {
  const { context, receive, states, later, store, clock, passes } = await memoryStage(t, 2)
  await receive(1)
  assert.equal(keepAwake(context, named(1), clock.now() + 10 * IDLE_MS).ok, true)
  await later(1)
  await receive(2)
  await receive(3)
  assert.equal(states(), 'running running waking')
  // The first VM has been idle for longer.
  assert.deepEqual(store.memoryLoans.idlest(1, clock.now()), [named(2)])
  await later(IDLE_MS * limits.earlySleepShare)
  await passes()
  assert.equal(states(), 'running sleeping running')
})

test('a VM whose memory stays promised does not sleep early, because it would make no room', async (t) => {
  const { context, receive, states, later, store, clock, passes } = await memoryStage(t, 2)
  setCompute(context, named(1), { ...SLEEPER, wake: 'guaranteed' })
  await receive(1)
  await later(1)
  await receive(2)
  await receive(3)
  assert.equal(states(), 'running running waking')
  assert.deepEqual(store.memoryLoans.idlest(1, clock.now()), [named(2)])
  await later(IDLE_MS * limits.earlySleepShare)
  await passes()
  assert.equal(states(), 'running sleeping running')
})

test('of the VMs that may make room, those that may sleep first are asked first', async (t) => {
  const { context, receive, states, store, clock, later } = await memoryStage(t, 3)
  const patient = { ...SLEEPER, sleepAfterIdleSeconds: 10 * SLEEPER.sleepAfterIdleSeconds }
  assert.equal(refusalOf(setCompute(context, named(1), patient)), undefined)
  await receive(1)
  await later(1)
  await receive(2)
  await later(1)
  await receive(3)
  assert.equal(states(), 'running running running')
  assert.deepEqual(store.memoryLoans.idlest(3, clock.now()), [named(2), named(3), named(1)])
})

test('no VM sleeps early when no VM waits for memory', async (t) => {
  const { receive, states, later } = await memoryStage(t, 3)
  await receive(1)
  await later(IDLE_MS * limits.earlySleepShare + 1)
  assert.equal(states(), 'running sleeping sleeping')
})

test('the queue outlives the daemon', async (t) => {
  const { receive, states, places, stop, start, idle } = await memoryStage(t, 1)
  await receive(2)
  await receive(3)
  await receive(1)
  await stop()
  await start()
  await idle()
  assert.equal(states(), 'waking running waking')
  assert.deepEqual(places(), [2, undefined, 1])
})

test('a VM whose wake is guaranteed keeps its memory promised, and never waits', async (t) => {
  const { context, receive, states, capacity, heldMib, one } = await memoryStage(t, 1)
  capacity.total.memoryMib = 2 * SLEEPER.memoryMib
  const guaranteed = { ...SLEEPER, wake: 'guaranteed' } as const
  assert.equal(setCompute(context, named(1), guaranteed).ok, true)
  assert.equal(heldMib(), SLEEPER.memoryMib)
  await receive(2)
  await receive(3)
  assert.equal(states(), 'sleeping running waking')
  await receive(1)
  assert.equal(states(), 'running running waking')
  assert.equal(one(1).memoryLent, undefined)
})

test('a guarantee that the host cannot give is refused', async (t) => {
  const { context, receive } = await memoryStage(t, 1)
  await receive(2)
  const result = setCompute(context, named(1), { ...SLEEPER, wake: 'guaranteed' })
  assert.equal(refusalOf(result), 'insufficient_capacity')
})

test('a VM that is never to sleep again needs its whole memory promised', async (t) => {
  const { context, receive, states, capacity } = await memoryStage(t, 1)
  await receive(2)
  const awake = { ...SLEEPER, sleepAfterIdleSeconds: 0 }
  assert.equal(refusalOf(setCompute(context, named(1), awake)), 'insufficient_capacity')
  assert.equal(states(), 'sleeping running sleeping')
  capacity.total.memoryMib = 2 * SLEEPER.memoryMib
  assert.equal(refusalOf(setCompute(context, named(1), awake)), undefined)
  assert.equal(refusalOf(setCompute(context, named(3), awake)), 'insufficient_capacity')
})

test('the memory that a VM without sleep lends is promised to no new VM', async (t) => {
  const { context, receive, states, idle, later } = await memoryStage(t, 1)
  await receive(2)
  setCompute(context, named(2), { ...SLEEPER, sleepAfterIdleSeconds: 0 })
  await receive(3)
  setPower(context, named(2), 'stopped')
  await idle()
  await later(limits.memoryRecheckMs)
  assert.equal(states(), 'sleeping stopped running')
  await later(IDLE_MS)
  await later(IDLE_MS)
  assert.equal(states(), 'sleeping stopped sleeping')
  const result = setCompute(context, named(1), { ...SLEEPER, wake: 'guaranteed' })
  assert.equal(refusalOf(result), 'insufficient_capacity')
})

test('a VM whose wake became guaranteed while a pass settled it lends nothing', async (t) => {
  const { context, store, one, heldMib } = await memoryStage(t, 3)
  const settled = one(1)
  store.memoryLoans.end(named(1))
  assert.equal(refusalOf(setCompute(context, named(1), { ...SLEEPER, wake: 'guaranteed' })), undefined)
  // What the pass does at its end, with the record that it read before.
  store.memoryLoans.lend(settled.id)
  assert.equal(one(1).memoryLent, undefined)
  assert.equal(heldMib(), SLEEPER.memoryMib)
})

test('a stop makes room for a VM that waits, and the stopped one waits in its turn when it starts', async (t) => {
  const { context, receive, states, places, idle, later, heldMib } = await memoryStage(t, 1)
  await receive(2)
  await receive(3)
  assert.equal(states(), 'sleeping running waking')
  setPower(context, named(2), 'stopped')
  await idle()
  await later(limits.memoryRecheckMs)
  assert.equal(states(), 'sleeping stopped running')
  setPower(context, named(2), 'running')
  await idle()
  assert.deepEqual(places(), [undefined, 1, undefined])
  assert.equal(heldMib(), SLEEPER.memoryMib)
})

test('a stopped VM keeps its memory while no other waits', async (t) => {
  const { context, receive, idle, one, later } = await memoryStage(t, 1)
  await receive(2)
  setPower(context, named(2), 'stopped')
  await idle()
  await later(limits.memoryRecheckMs)
  assert.equal(one(2).memoryLent, undefined)
})

test('a VM that can never have its memory keeps no other waiting', async (t) => {
  const { context, receive, states, places, one, capacity, later, idle } = await memoryStage(t, 3)
  setPower(context, named(1), 'stopped')
  await idle()
  const [two, four] = [2, 4].map((times) =>
    setCompute(context, named(1), { ...SLEEPER, memoryMib: times * SLEEPER.memoryMib }),
  )
  assert.deepEqual([two?.ok, four?.ok], [true, false])
  assert.match(JSON.stringify(four), /together may have \d+ MiB: ask for less/)
  capacity.total.memoryMib = SLEEPER.memoryMib
  setPower(context, named(1), 'running')
  await idle()
  await receive(2)
  assert.equal(states(), 'failed running sleeping')
  assert.equal(one(1).observed.fault?.code, 'memory_exceeds_host')
  assert.deepEqual(places(), [undefined, undefined, undefined])
  capacity.total.memoryMib = 3 * SLEEPER.memoryMib
  await later(limits.retryBackoffMsMax)
  assert.equal(one(1).observed.state, 'running')
})

test('a VM that was stopped while it slept waits for memory too, and a stop takes it out of the queue', async (t) => {
  const { context, receive, states, places, idle, one, later } = await memoryStage(t, 1)
  await receive(2)
  setPower(context, named(1), 'stopped')
  await idle()
  setPower(context, named(1), 'running')
  await idle()
  assert.equal(one(1).observed.waitingFor, 'memory')
  await receive(3)
  assert.deepEqual(places(), [1, undefined, 2])
  setPower(context, named(1), 'stopped')
  await idle()
  await later(limits.memoryRecheckMs)
  assert.equal(states(), 'stopped running waking')
  assert.deepEqual(places(), [undefined, undefined, 1])
})

test('a larger VM is not overtaken by a smaller one', async (t) => {
  const { store, context, receive, states, places, idle, later, capacity } = await memoryStage(t, 3)
  setPower(context, named(1), 'stopped')
  await idle()
  assert.equal(store.vms.get(named(1))?.memoryLent, true)
  setCompute(context, named(1), { ...SLEEPER, memoryMib: 3 * SLEEPER.memoryMib })
  await receive(2)
  setPower(context, named(1), 'running')
  await idle()
  await receive(3)
  assert.equal(states(), 'starting running waking')
  assert.deepEqual(places(), [1, undefined, 2])
  capacity.total.memoryMib = 5 * SLEEPER.memoryMib
  await later(limits.memoryRecheckMs)
  assert.equal(states(), 'running running running')
})

test('a VM that lent its memory wakes while no record can be written, and its memory counts at once', async (t) => {
  const { directory, store, host, context, clock, receive, states, heldMib, one, idle } = await memoryStage(
    t,
    1,
  )
  const lenders = () => store.vms.recorded().classes.map((all) => [all.lenders, all.partPromised])
  const free = lockStore(directory)
  await receive(2)
  assert.equal(states(), 'sleeping running sleeping')
  assert.equal(one(2).observed.fault, undefined)
  assert.deepEqual(host.traffic.given(one(2).host.userId), ['packet for 2'])
  await receive(3)
  assert.equal(host.fakeUnits.stateOf(named(3)).kind, 'absent')
  assert.deepEqual([one(2).memoryLent, heldMib(), lenders()], [undefined, SLEEPER.memoryMib, [[2, 2]]])
  await free()
  assert.ok(keepAwake(context, named(1), clock.now() + 10 * IDLE_MS).ok)
  await idle()
  assert.deepEqual([one(2).memoryLent, heldMib(), lenders()], [undefined, SLEEPER.memoryMib, [[2, 2]]])
})

test('a VM that waited for memory wakes while no record can be written, and the next one follows', async (t) => {
  const { directory, context, clock, receive, states, capacity, later, one, places, idle } =
    await memoryStage(t, 1)
  await receive(2)
  await receive(3)
  await receive(1)
  const free = lockStore(directory)
  capacity.total.memoryMib = 2 * SLEEPER.memoryMib
  await later(limits.memoryRecheckMs)
  assert.equal(states(), 'waking running running')
  assert.equal(one(3).observed.fault, undefined)
  capacity.total.memoryMib = 3 * SLEEPER.memoryMib
  await later(limits.memoryRecheckMs)
  assert.equal(states(), 'running running running')
  await free()
  assert.ok(keepAwake(context, named(2), clock.now() + 10 * IDLE_MS).ok)
  await idle()
  assert.deepEqual(places(), [undefined, undefined, undefined])
  assert.deepEqual([one(1).memoryLent, one(3).memoryLent], [undefined, undefined])
})

test('a VM that waits first and fails keeps no other waiting', async (t) => {
  const { context, receive, states, places, host, idle, later, one } = await memoryStage(t, 1)
  await receive(2)
  await receive(3)
  await receive(1)
  assert.deepEqual(places(), [2, undefined, 1])
  for (let attempt = 0; attempt < 5; attempt += 1)
    host.storage.failNext('remove', new HostFault('storage_failed', 'on purpose'))
  deleteVm(context, named(3))
  await idle()
  assert.deepEqual([states(), places()], ['waking running deleting', [1, undefined, undefined]])
  setPower(context, named(2), 'stopped')
  await idle()
  await later(limits.memoryRecheckMs)
  assert.equal(one(1).observed.state, 'running')
})

test('a VM whose wake fails gives its memory to one that waits, and then waits in its turn', async (t) => {
  const { host, receive, states, places, later, passes, heldMib } = await memoryStage(t, 1)
  host.fakeUnits.failNext('ensureStarted', new HostFault('unit_start_failed', 'on purpose'))
  await receive(2)
  await receive(3)
  assert.deepEqual(places(), [undefined, undefined, 1])
  await later(limits.retryBackoffMsMax)
  await passes()
  assert.deepEqual([states(), places()], ['sleeping waking running', [undefined, 1, undefined]])
  assert.equal(heldMib(), SLEEPER.memoryMib)
})

test('a VM whose wake fails keeps its memory while no other waits', async (t) => {
  const { host, receive, states, later, one } = await memoryStage(t, 1)
  host.fakeUnits.failNext('ensureStarted', new HostFault('unit_start_failed', 'on purpose'))
  await receive(2)
  assert.deepEqual([one(2).observed.fault?.code, one(2).memoryLent], ['unit_start_failed', undefined])
  await later(limits.retryBackoffMsMax)
  assert.deepEqual([states(), one(2).memoryLent], ['sleeping running sleeping', undefined])
})

test('a VM that waits first and whose record cannot be read keeps no other waiting', async (t) => {
  const { context, directory, receive, one, idle, later } = await memoryStage(t, 1)
  await receive(2)
  await receive(3)
  await receive(1)
  breakRecord(directory, named(3))
  await later(limits.memoryRecheckMs)
  setPower(context, named(2), 'stopped')
  await idle()
  await later(limits.memoryRecheckMs)
  assert.equal(one(1).observed.state, 'running')
})
