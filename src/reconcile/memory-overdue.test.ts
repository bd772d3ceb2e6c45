import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoryStage, named } from '../../test/memory-stage.ts'
import { keepAwake } from '../commands/vm/wake-vm.ts'
import { limits } from '../config/limits.ts'
import type { TestContext } from 'node:test'

/** A host with memory for one VM, which the second has. The third has waited so long that its wait is overdue. */
async function overdueStage(t: TestContext) {
  const stage = await memoryStage(t, 1)
  const { context, clock, receive, later, one } = stage
  await receive(2)
  assert.equal(keepAwake(context, named(2), clock.now() + limits.keepAwakeMsMax).ok, true)
  await receive(3)
  for (let waitedMs = 0; waitedMs < 2 * limits.memoryWaitMs; waitedMs += limits.memoryRecheckMs)
    await later(limits.memoryRecheckMs)
  assert.equal(one(3).observed.fault?.code, 'wait_overdue')
  return stage
}

test('an overdue wait for memory says that it waits for memory, and keeps its place', async (t) => {
  const { one, places, receive } = await overdueStage(t)
  const { state, waitingFor, fault } = one(3).observed
  assert.deepEqual([state, waitingFor, fault?.step], ['waking', 'memory', 'memory.inspect'])
  assert.match(fault?.message ?? '', /^waking for \d+ s, waiting for memory$/)
  await receive(1)
  assert.deepEqual(places(), [2, undefined, 1])
})

test('an overdue wait for memory ends soon after the host has memory, whatever its back-off', async (t) => {
  const { capacity, one, later, states } = await overdueStage(t)
  assert.ok((one(3).observed.fault?.attempt ?? 0) > 1)
  capacity.total.memoryMib *= 2
  await later(limits.memoryRecheckMs)
  assert.equal(states(), 'sleeping running running')
  assert.equal(one(3).observed.fault, undefined)
})

test('an overdue wait for memory is counted and logged once in each back-off', async (t) => {
  const { one, later, lines, clock } = await overdueStage(t)
  const failures = () => lines.filter(({ message }) => message === 'pass failed').length
  const counted = () => [one(3).observed.fault?.attempt, failures()]
  const before = counted()
  const { nextAttemptAtMs } = one(3).observed.fault ?? assert.fail('it has no fault')
  while (clock.now() + limits.memoryRecheckMs < nextAttemptAtMs) {
    await later(limits.memoryRecheckMs)
    assert.deepEqual(counted(), before)
  }
  await later(limits.memoryRecheckMs)
  assert.deepEqual(
    counted(),
    before.map((count = 0) => count + 1),
  )
})
