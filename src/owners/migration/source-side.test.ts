import assert from 'node:assert/strict'
import { test } from 'node:test'
import { applied, DISK_BYTES, got, leaveStage, never, said } from '../../../test/leave-stage.ts'
import { HostFault } from '../../core/errors.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { MigrationId, NodeName } from '../../core/migration/offer.ts'

const other = 'second' as ArrivalId

test('rounds, the handover and the release give the destination the disk and memory of one moment', async (t) => {
  const { round, copy, write, content, handOver, source, move, shown, host, id, vm, idle } =
    await leaveStage(t)
  assert.deepEqual(await got(round(1)), { sizeBytes: DISK_BYTES, changedBytes: 4096 })
  const disk = await copy(1)
  write(3, 7)
  assert.equal((await got(round(2))).changedBytes, 4096)
  await copy(2, disk)
  write(5, 9)
  const handed = await got(handOver())
  assert.deepEqual([handed.stage, handed.lastRound], ['handed_over', 3])
  assert.equal(handed.memory?.terms.compute.memoryMib, 256)
  assert.deepEqual([shown(), host.fakeUnits.stateOf(id).kind], ['sleeping', 'absent'])
  await copy(3, disk)
  assert.deepEqual(disk, content)
  const memory = await got(source().reads.memoryFrames(move, 0, never))
  await applied(memory, new Uint8Array(handed.memory?.lengthBytes ?? 0))
  assert.equal((await got(source().release(move, 3))).stage, 'released')
  await idle()
  assert.equal(vm().departure?.lived, 'running')
  assert.deepEqual(await host.rounds.list(), [])
})

test('a repeated request changes nothing: the same round, stage and release', async (t) => {
  const { round, toHandedOver, handOver, source, move, write, vm } = await leaveStage(t)
  await toHandedOver()
  write(4, 4)
  assert.deepEqual(await got(round(2)), { sizeBytes: DISK_BYTES, changedBytes: 0 })
  assert.equal((await got(handOver())).lastRound, 2)
  const before = vm().departure
  for (let time = 0; time < 2; time += 1) await got(source().release(move, 2))
  assert.equal(before?.stage, 'handed_over')
  assert.equal(vm().departure?.stage, 'released')
})

test('only the node of the offer is answered, and only the attempt that copies', async (t) => {
  const { round, source, move, toHandedOver } = await leaveStage(t)
  const stranger = { ...move, node: 'node-3' as NodeName }
  const second = { ...move, arrival: other }
  const answers = (as: typeof move): Promise<unknown>[] => [
    said(source().ensureRound(as, 1, never)),
    said(source().handOver(as, never)),
    said(source().reads.roundFrames(as, { number: 1, from: 0 }, never)),
    said(source().reads.memoryFrames(as, 0, never)),
    said(source().reads.heldPackets(as, { after: 0, waitMs: 0 }, never)),
    said(source().release(as, 2)),
    said(source().abort(as)),
  ]
  assert.deepEqual(
    await Promise.all(answers(stranger)),
    answers(stranger).map(() => 'unknown'),
  )
  assert.equal(await said(source().manifest(stranger)), 'unknown')
  await toHandedOver()
  assert.deepEqual(
    await Promise.all(answers(second)),
    answers(second).map(() => 'not_yours'),
  )
  assert.equal((await got(round(2))).changedBytes, 0)
})

test('an attempt that begins again has no rounds of an earlier one, even under its name', async (t) => {
  const { round, write, content, source, move, offer, host, id, settle } = await leaveStage(t)
  await got(round(1))
  host.rounds.failNext('remove', new HostFault('storage_failed', 'removing'))
  assert.equal((await got(source().abort(move))).stage, 'withdrawn')
  const again = { ...move, id: 'move-8' as MigrationId }
  await offer(again.id)
  write(6, 6)
  await settle()
  assert.equal((await got(round(1, again))).changedBytes, 8192)
  const frames = await got(source().reads.roundFrames(again, { number: 1, from: 0 }, never))
  assert.deepEqual(await applied(frames, new Uint8Array(DISK_BYTES)), content)
  assert.equal(await said(source().ensureRound(move, 1, never)), 'unknown')
  assert.deepEqual(await host.rounds.list(), [id])
})

test('a last round is never one that was taken while the guest ran', async (t) => {
  const { source, move, host, write, content, copy, handOver, restart, round } = await leaveStage(t)
  await got(round(1))
  const disk = await copy(1)
  // The daemon dies when round 2 is on record, before and after it was taken.
  for (const moment of ['before', 'after'] as const) {
    host.rounds.failNext('ensureRound', new HostFault('storage_failed', 'dying'), moment)
    await assert.rejects(source().ensureRound(move, 2, never))
    await restart()
  }
  await got(round(2))
  await copy(2, disk)
  write(8, 8)
  const { lastRound } = await got(handOver())
  assert.equal(lastRound, 3)
  assert.deepEqual(await copy(3, disk), content)
})

test('a daemon that dies while it takes the last round leaves it to the next one', async (t) => {
  const { host, round, source, move, restart, settle, stageNow, copy, content, write } = await leaveStage(t)
  await got(round(1))
  const disk = await copy(1)
  write(2, 2)
  host.rounds.holdNext('ensureRound')
  const answer = source().handOver(move, never)
  await settle()
  assert.equal(stageNow(), 'handing_over')
  await restart()
  assert.equal((await got(answer)).stage, 'handing_over')
  await settle()
  assert.equal((await got(source().handOver(move, never))).lastRound, 2)
  assert.deepEqual(await copy(2, disk), content)
})

test('a last round that was taken, and is not on record yet, is used again', async (t) => {
  const { host, round, handOver, copy, content, write } = await leaveStage(t)
  await got(round(1))
  const disk = await copy(1)
  write(2, 2)
  host.rounds.failNext('ensureRound', new HostFault('storage_failed', 'answering'), 'after')
  assert.equal((await got(handOver())).lastRound, 2)
  assert.deepEqual(await copy(2, disk), content)
})
