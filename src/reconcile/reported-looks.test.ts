import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import type { TestContext } from 'node:test'

/** Reports that come faster than their looks are earned back. */
const MANY = 10 * limits.monitorLooksBurst

/** A VM that runs. Its monitor reports what it likes, as often as it likes. */
async function reportingStage(t: TestContext) {
  const stage = await reconcileStage(t)
  const { host, id, create, idle, later, store, vm } = stage
  create()
  await idle()
  const running = host.monitor.stateOf(id)
  assert.ok(running.kind === 'running')
  // What the start cost is earned back.
  await later(limits.monitorLookEveryMs * limits.monitorLooksBurst)
  const looks = mock.method(host.units, 'inspect').mock
  return {
    ...stage,
    looks: (): number => looks.callCount(),
    events: (): number => store.events.list({ after: 0, limit: limits.eventsMax }).length,
    /** Its monitor pauses the guest by itself. */
    pause: async (): Promise<void> => {
      host.monitor.become(id, { ...running, kind: 'paused' })
      await idle()
    },
    /** Its monitor reports again what it reported before. */
    report: async (): Promise<void> => {
      host.monitor.become(id, running)
      await idle()
    },
    changeTap: async (): Promise<void> => {
      const { device } = vm().host
      host.taps.devices.set(device, host.taps.devices.get(device) ?? assert.fail('it has no tap'))
      await idle()
    },
    /** Changes of some device come faster than the kernel reports them. */
    overflow: async (): Promise<void> => {
      host.taps.devices.overflow()
      await idle()
    },
  }
}

test('a monitor that reports without end causes few looks, the first at once and the last in time', async (t) => {
  const { report, looks, later } = await reportingStage(t)
  await report()
  assert.equal(looks(), 1)
  for (let number = 1; number < MANY; number += 1) await report()
  assert.equal(looks(), limits.monitorLooksBurst)
  await later(limits.monitorLookEveryMs)
  assert.equal(looks(), limits.monitorLooksBurst + 1)
  await later(limits.monitorLookEveryMs)
  assert.equal(looks(), limits.monitorLooksBurst + 1)
})

test('a monitor that changes its tap without end causes few looks', async (t) => {
  const { changeTap, looks } = await reportingStage(t)
  for (let number = 0; number < MANY; number += 1) await changeTap()
  assert.equal(looks(), limits.monitorLooksBurst)
})

test('changes without end that the kernel does not report cause few looks at all VMs', async (t) => {
  const { overflow, looks, later } = await reportingStage(t)
  for (let number = 0; number < MANY; number += 1) await overflow()
  assert.equal(looks(), 1)
  await later(limits.lostChangesLookEveryMs)
  assert.equal(looks(), 2)
  await later(limits.lostChangesLookEveryMs)
  assert.equal(looks(), 2)
})

test('a VM whose monitor reports without end obeys a request at once', async (t) => {
  const { context, id, report, shown, idle } = await reportingStage(t)
  for (let number = 0; number < MANY; number += 1) await report()
  setPower(context, id, 'stopped')
  await idle()
  assert.equal(shown(), 'stopped')
})

test('a monitor that pauses its guest without end causes few events, and the guest runs in the end', async (t) => {
  const { pause, shown, events, later, host, id } = await reportingStage(t)
  const before = events()
  for (let number = 0; number < MANY; number += 1) await pause()
  assert.ok(events() - before <= 4 * limits.monitorLooksBurst, `${events() - before} events`)
  await later(limits.monitorLookEveryMs)
  assert.deepEqual([host.monitor.stateOf(id).kind, shown()], ['running', 'running'])
})
