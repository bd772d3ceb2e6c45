/** Ends of guests whose disk is captured. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { deleteVm } from '../../commands/vm/delete-vm.ts'
import { setPower } from '../../commands/vm/set-power.ts'

for (const end of ['stop', 'deletion'] as const) {
  test(`a ${end} does not wait for a monitor that does not let a captured guest run`, async (t) => {
    const { context, host, vmId, upload, take, quiet } = await snapshotStage(t)
    host.staging.holdNext('clone')
    take(urlsOf(upload))
    await quiet()
    const answers = host.monitor.holdNext('ensureRunning')
    if (end === 'stop') setPower(context, vmId, 'stopped')
    else deleteVm(context, vmId)
    await quiet()
    const { kind } = host.fakeUnits.stateOf(vmId)
    // Before a check can fail: the daemon that is stopped then waits for this.
    answers()
    assert.equal(kind, 'absent')
  })
}

test('a stop ends the wait for a monitor that lets a captured guest run', async (t) => {
  const { context, host, vmId, upload, take, quiet } = await snapshotStage(t)
  const cloned = host.staging.holdNext('clone')
  take(urlsOf(upload))
  await quiet()
  const answers = host.monitor.holdNext('ensureRunning')
  cloned()
  await quiet()
  setPower(context, vmId, 'stopped')
  await quiet()
  const { kind } = host.fakeUnits.stateOf(vmId)
  answers()
  assert.equal(kind, 'absent')
})

for (const end of ['stop', 'deletion', 'grace that is over'] as const) {
  test(`after a stop with grace, a ${end} does not wait for the monitor either`, async (t) => {
    const { context, host, clock, vmId, upload, take, quiet } = await snapshotStage(t)
    host.staging.holdNext('clone')
    take(urlsOf(upload))
    await quiet()
    const answers = host.monitor.holdNext('ensureRunning')
    setPower(context, vmId, 'stopped', { graceSeconds: 5 })
    await quiet()
    if (end === 'stop') setPower(context, vmId, 'stopped')
    else if (end === 'deletion') deleteVm(context, vmId)
    else clock.advance(5000)
    await quiet()
    const { kind } = host.fakeUnits.stateOf(vmId)
    answers()
    assert.equal(kind, 'absent')
  })
}
