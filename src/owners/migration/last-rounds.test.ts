import assert from 'node:assert/strict'
import { test } from 'node:test'
import { breakRecord, mendRecord } from '../../../test/break-record.ts'
import { got, leaveStage, never, said } from '../../../test/leave-stage.ts'
import { stopsBefore } from '../../../test/stops-before.ts'
import { offerVm, withdrawOffer } from '../../commands/migration/offer-vm.ts'
import { deleteVm } from '../../commands/vm/delete-vm.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import type { MigrationId } from '../../core/migration/offer.ts'

test('a guest that ends before it is saved stays, and its destination hears so', async (t) => {
  const { round, source, move, host, id, settle, vm, shown, later } = await leaveStage(t)
  await got(round(1))
  host.fakeUnits.exit(id, 1)
  const answer = source().handOver(move, never)
  await settle()
  // The unit is removed after the back-off of an exit.
  await later(limits.handoverPollMs - 1)
  await settle()
  assert.equal(await said(answer), 'withdrawn')
  assert.deepEqual([vm().departure?.stage, vm().departure?.because], ['withdrawn', 'guest_lost'])
  assert.equal(vm().wake, undefined)
  assert.notEqual(shown(), 'migrated')
})

test('a handover waits for a look at the host that fails, and for nothing else', async (t) => {
  const { round, handOver, host, stageNow, source, move, later, settle } = await leaveStage(t)
  await got(round(1))
  host.storage.setInSight(false)
  const answer = source().handOver(move, never)
  await settle()
  assert.equal(stageNow(), 'handing_over')
  host.storage.setInSight(true)
  await later(limits.handoverLookMs)
  await settle()
  assert.equal((await got(answer)).stage, 'handed_over')
  assert.equal((await got(handOver())).stage, 'handed_over')
})

test('an abort wakes the guest at once, and is repeated without effect', async (t) => {
  const { toHandedOver, source, move, idle, shown, goesOn, vm, host, settle } = await leaveStage(t)
  await toHandedOver()
  for (let time = 0; time < 2; time += 1) assert.equal((await got(source().abort(move))).stage, 'withdrawn')
  await idle()
  await settle()
  assert.equal(shown(), 'running')
  assert.ok(goesOn())
  assert.equal(vm().departure?.because, 'aborted')
  assert.deepEqual(await host.rounds.list(), [])
  assert.equal(await said(source().release(move, 2)), 'withdrawn')
})

test('an abort after the release is refused', async (t) => {
  const { toHandedOver, source, move } = await leaveStage(t)
  await toHandedOver()
  await got(source().release(move, 2))
  assert.equal(await said(source().abort(move)), 'released')
})

test('a guest that sleeps moves asleep, and an abort leaves it asleep', async (t) => {
  const { source, move, fallAsleep, idle, shown, vm, context, id, offer, settle } = await leaveStage(t)
  assert.ok(withdrawOffer(context, id).ok)
  await idle()
  await fallAsleep()
  const again = { ...move, id: 'move-8' as typeof move.id }
  await offer(again.id)
  await got(source().ensureRound(again, 1, never))
  const answer = source().handOver(again, never)
  await settle()
  assert.equal((await got(answer)).stage, 'handed_over')
  assert.equal(vm().departure?.lived, 'sleeping')
  assert.equal((await got(source().manifest(again))).power, 'sleeping')
  await got(source().abort(again))
  await idle()
  assert.equal(shown(), 'sleeping')
})

test('a cold migration ends the guest, and there is no memory to read', async (t) => {
  const { round, handOver, source, move, shown } = await leaveStage(t, 'cold')
  await got(round(1))
  const handed = await got(handOver())
  assert.deepEqual(handed, { stage: 'handed_over', lastRound: 2 })
  assert.equal(shown(), 'stopped')
  const frames = await got(source().reads.memoryFrames(move, 0, never))
  await assert.rejects(async () => {
    for await (const _chunk of frames);
  }, HostFault)
})

test('a stop and a deletion take the guest back in the midst of its last round', async (t) => {
  for (const end of ['stopped', 'deleted'] as const) {
    const { round, source, move, host, settle, context, id, store } = await leaveStage(t)
    await got(round(1))
    host.rounds.holdNext('ensureRound')
    const answer = source().handOver(move, never)
    await settle()
    assert.ok((end === 'stopped' ? setPower(context, id, 'stopped') : deleteVm(context, id)).ok)
    await settle()
    assert.equal(await said(answer), 'withdrawn')
    assert.equal(await said(source().release(move, 2)), end === 'stopped' ? 'withdrawn' : 'unknown')
    assert.equal(store.vms.get(id)?.departure?.because, end === 'stopped' ? 'stopped' : undefined)
    assert.deepEqual(host.savedFiles.paths(), [])
  }
})

test('a release is answered in the same way after the VM was deleted, also by the next daemon', async (t) => {
  const { toHandedOver, source, move, context, id, idle, store, restart } = await leaveStage(t)
  await toHandedOver()
  await got(source().release(move, 2))
  assert.ok(deleteVm(context, id).ok)
  await idle()
  assert.equal(store.vms.get(id), undefined)
  await restart()
  assert.equal((await got(source().release(move, 2))).stage, 'released')
  assert.deepEqual(await got(source().handOver(move, never)), { stage: 'released', lastRound: 2 })
  assert.equal(await said(source().release(move, 1)), 'outdated')
  assert.equal(await said(source().abort(move)), 'released')
  assert.equal(await said(source().ensureRound(move, 1, never)), 'released')
  assert.equal(await said(source().release({ ...move, node: 'node-3' as typeof move.node }, 2)), 'unknown')
})

test('the next daemon removes the rounds of a migration that is decided', async (t) => {
  const { round, source, move, host, restart, settle, later, id } = await leaveStage(t)
  await got(round(1))
  host.rounds.failNext('remove', new HostFault('storage_failed', 'removing'))
  await got(source().abort(move))
  host.rounds.failNext('list', new HostFault('storage_inspection_failed', 'listing'))
  await restart()
  await settle()
  assert.deepEqual(await host.rounds.list(), [id])
  await later(limits.roundsRetryMs)
  await settle()
  assert.deepEqual(await host.rounds.list(), [])
})

test('the rounds of a migration that is decided are removed once, however often the VM changes', async (t) => {
  const { round, source, move, host, context, id, idle, settle } = await leaveStage(t)
  await got(round(1))
  const removals = t.mock.method(host.rounds, 'remove')
  await got(source().abort(move))
  for (const power of ['paused', 'running'] as const) {
    assert.ok(setPower(context, id, power).ok)
    await idle()
    await settle()
  }
  assert.equal(removals.mock.callCount(), 1)
})

test('a daemon that stops waits for a removal of rounds, and does not try again if it fails', async (t) => {
  const { round, source, move, host, settle, later } = await leaveStage(t)
  await got(round(1))
  const removal = Promise.withResolvers<never>()
  t.mock.method(host.rounds, 'remove', () => removal.promise)
  await got(source().abort(move))
  await settle()
  const end = (): void => removal.reject(new HostFault('storage_failed', 'removing'))
  assert.ok(!(await stopsBefore(() => source().stop(), { settle, end })))
  const lists = t.mock.method(host.rounds, 'list')
  await later(limits.roundsRetryMs)
  await settle()
  assert.equal(lists.mock.callCount(), 0)
})

test('a handover goes on after its record could not be read for a while', async (t) => {
  const { directory, round, host, id, stageNow, source, handOver, move, later, settle } = await leaveStage(t)
  await got(round(1))
  const failed = new HostFault('storage_failed', 'cloning')
  const cloning = t.mock.method(host.rounds, 'ensureRound', () => Promise.reject(failed))
  const answer = source().handOver(move, never)
  await settle()
  assert.equal(stageNow(), 'handing_over')
  breakRecord(directory, id)
  await later(limits.handoverLookMs)
  await settle()
  mendRecord(directory, id)
  cloning.mock.restore()
  assert.equal(stageNow(), 'handing_over')
  await later(limits.handoverLookMs)
  await settle()
  assert.equal((await got(answer)).stage, 'handed_over')
  assert.equal((await got(handOver())).stage, 'handed_over')
})

test('a handover that the daemon began is finished by the next one', async (t) => {
  const { round, host, stageNow, source, move, restart, settle } = await leaveStage(t)
  await got(round(1))
  const failed = new HostFault('storage_failed', 'cloning')
  const cloning = t.mock.method(host.rounds, 'ensureRound', () => Promise.reject(failed))
  const answer = source()
    .handOver(move, never)
    .catch(() => {})
  await settle()
  assert.equal(stageNow(), 'handing_over')
  cloning.mock.restore()
  await restart()
  await answer
  await settle()
  assert.equal(stageNow(), 'handed_over')
})

test('a record that cannot be read keeps its rounds, and keeps no others from being removed', async (t) => {
  const stage = await leaveStage(t)
  const { round, source, move, host, restart, settle, later, id, directory, createAnother, idle } = stage
  const other = 'web-22' as VmId
  createAnother(22)
  await idle()
  const second = { ...move, id: 'move-22' as MigrationId }
  const expiresAtMs = stage.clock.now() + 3_600_000
  assert.ok(offerVm(stage.context, other, { id: second.id, node: move.node, mode: 'live', expiresAtMs }).ok)
  await got(round(1))
  await got(source().ensureRound(second, 1, never))
  host.rounds.failNext('remove', new HostFault('storage_failed', 'removing'))
  await got(source().abort(second))
  breakRecord(directory, id)
  await restart()
  await settle()
  assert.deepEqual(await host.rounds.list(), [id])
  mendRecord(directory, id)
  await later(limits.roundsRetryMs)
  await settle()
  assert.deepEqual(await host.rounds.list(), [id])
})

test('a last round without an earlier one is of the disk as it is, whatever an arrival of its name has left', async (t) => {
  const { host, id, move, round, write, content, copy, handOver } = await leaveStage(t)
  await host.rounds.ensureRound({ id, arrival: move.arrival, number: 1 }, never)
  host.rounds.failNext('remove', new HostFault('storage_failed', 'removing'))
  await assert.rejects(round(1), { code: 'storage_failed' })
  write(3, 7)
  assert.equal((await got(handOver())).lastRound, 1)
  assert.ok(Buffer.from(await copy(1)).equals(content))
})

test('a round that is on record and was not taken keeps no guest from its handover', async (t) => {
  const { host, round, source, move, settle, vm } = await leaveStage(t)
  await got(round(1))
  host.rounds.failNext('ensureRound', new HostFault('storage_failed', 'taking a round'))
  await assert.rejects(round(2), { code: 'storage_failed' })
  const answer = source().handOver(move, never)
  await settle()
  // The answer comes with the stage, or at the end of the daemon.
  const { stage, lastRound } = vm().departure ?? assert.fail('it does not leave')
  assert.deepEqual([stage, lastRound], ['handed_over', 3])
  await got(answer)
})

test('a guest that was taken back from its handover is handed over to the next migration', async (t) => {
  const { toHandedOver, source, move, offer, idle, settle, stageNow } = await leaveStage(t)
  await toHandedOver()
  await got(source().abort(move))
  await idle()
  const again = { ...move, id: 'move-8' as MigrationId }
  await offer(again.id)
  await got(source().ensureRound(again, 1, never))
  const answer = source().handOver(again, never)
  await settle()
  // The answer comes with the stage, or at the end of the daemon.
  assert.equal(stageNow(), 'handed_over')
  await got(answer)
})

test('a daemon that stops does not wait for a last round that is being taken', async (t) => {
  const { round, source, move, host, settle, stageNow } = await leaveStage(t)
  await got(round(1))
  const taken = host.rounds.holdNext('ensureRound')
  void said(source().handOver(move, never))
  await settle()
  const end = (): void => taken()
  assert.ok(await stopsBefore(() => source().stop(), { settle, end }))
  assert.equal(stageNow(), 'handing_over')
})

test('a daemon that stops waits for the end of a look at a guest that is handed over', async (t) => {
  const { round, source, move, host, settle } = await leaveStage(t)
  await got(round(1))
  const answers = Promise.withResolvers<never>()
  t.mock.method(host.rounds, 'ensureRound', () => answers.promise)
  void said(source().handOver(move, never))
  await settle()
  const end = (): void => answers.reject(new HostFault('storage_failed', 'cloning'))
  assert.ok(!(await stopsBefore(() => source().stop(), { settle, end })))
})
