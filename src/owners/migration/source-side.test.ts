import assert from 'node:assert/strict'
import { test } from 'node:test'
import { applied, DISK_BYTES, got, leaveStage, never, said } from '../../../test/leave-stage.ts'
import { offerVm, withdrawOffer } from '../../commands/migration/offer-vm.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { MigrationId, NodeName } from '../../core/migration/offer.ts'
import type { SourceRefusal } from '../../core/migration/departure.ts'
import type { Result } from '../../lib/result.ts'

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

/** A guest that is offered, on a disk that takes nothing while `hangs` is set. */
async function slowDiskStage(t: TestContext) {
  const disk = { hangs: (): boolean => false, works: Promise.withResolvers<void>() }
  const stage = await leaveStage(t, 'live', {
    flush: async () => {
      if (disk.hangs()) await disk.works.promise
    },
  })
  const { settle } = stage
  return {
    ...stage,
    disk,
    /** Returns the answer, which must wait for the disk. `meanwhile` looks at the host before the disk works again. */
    answeredAfterDisk: async <T>(
      ask: () => Promise<Result<T, SourceRefusal>>,
      meanwhile: () => Promise<void> = async () => {},
    ) => {
      let isAnswered = false
      const answer = ask().finally(() => {
        isAnswered = true
      })
      try {
        await settle()
        assert.ok(!isAnswered, 'it was answered before it was on the disk')
        await meanwhile()
      } finally {
        disk.hangs = () => false
        disk.works.resolve()
      }
      const value = await got(answer)
      disk.works = Promise.withResolvers()
      return value
    },
  }
}

test('what an answer says is on the disk before it: the manifest and a round', async (t) => {
  const { disk, answeredAfterDisk, source, move, store, id, round, host } = await slowDiskStage(t)
  disk.hangs = () => true
  store.vms.changeMetadata(id, { labels: { a: 'b' }, protected: false }, 2000)
  await answeredAfterDisk(() => source().manifest(move))
  disk.hangs = () => true
  await answeredAfterDisk(
    () => round(1),
    async () => assert.deepEqual(await host.rounds.list(), []),
  )
})

test('what an answer says is on the disk before it: the handover and the release', async (t) => {
  const { disk, answeredAfterDisk, source, move, stageNow, round } = await slowDiskStage(t)
  await got(round(1))
  disk.hangs = () => stageNow() === 'handed_over'
  const handed = await answeredAfterDisk(() => source().handOver(move, never))
  assert.equal(handed.stage, 'handed_over')
  disk.hangs = () => true
  assert.deepEqual(await answeredAfterDisk(() => source().release(move, 2)), { stage: 'released' })
})

test('what an answer says is on the disk before it: the end of an attempt', async (t) => {
  const { disk, answeredAfterDisk, source, move, round } = await slowDiskStage(t)
  await got(round(1))
  disk.hangs = () => true
  assert.deepEqual(await answeredAfterDisk(() => source().abort(move)), { stage: 'withdrawn' })
})

test('a node gets no manifest, with user data and keys, of an offer that is withdrawn or released', async (t) => {
  const { source, move, context, id, offer, idle, round, handOver } = await leaveStage(t)
  assert.ok(withdrawOffer(context, id).ok)
  await idle()
  assert.equal(await said(source().manifest(move)), 'withdrawn')
  const again = { ...move, id: 'move-8' as MigrationId }
  await offer(again.id)
  await got(round(1, again))
  assert.equal((await got(handOver(again))).stage, 'handed_over')
  await got(source().release(again, 2))
  assert.equal(await said(source().manifest(again)), 'released')
})

test('a guest that is down for the handover has its rounds, also while other VMs have all places', async (t) => {
  const { createAnother, idle, source, move, context, clock, round, handOver } = await leaveStage(t)
  for (const number of [21, 22]) createAnother(number)
  await idle()
  await got(round(1))
  clock.advance(limits.departureIdleMs)
  for (const name of ['web-21', 'web-22']) {
    const id = `move-${name}` as MigrationId
    const { node } = move
    const expiresAtMs = clock.now() + 3_600_000
    assert.ok(offerVm(context, name as VmId, { id, node, mode: 'live', expiresAtMs }).ok)
    await got(source().ensureRound({ ...move, id }, 1, never))
  }
  assert.equal(await said(round(1)), 'busy')
  assert.equal((await got(handOver())).lastRound, 2)
  assert.equal((await got(round(2))).changedBytes, 0)
})

test('a daemon that stops does not wait for a round that is being taken', async (t) => {
  const { round, host, source, settle } = await leaveStage(t)
  const taken = host.rounds.holdNext('ensureRound')
  const answers: unknown[] = []
  const asked = said(round(1)).then((answer) => answers.push(answer))
  await settle()
  await source().stop()
  await settle()
  const early = [...answers]
  taken()
  await asked
  assert.deepEqual(early, ['busy'])
})

test('a round that is being taken ends when its offer is withdrawn, and its node hears why', async (t) => {
  const { round, host, context, id, settle } = await leaveStage(t)
  const taken = host.rounds.holdNext('ensureRound')
  const answers: unknown[] = []
  const asked = said(round(1)).then((answer) => answers.push(answer))
  await settle()
  assert.ok(withdrawOffer(context, id).ok)
  await settle()
  const early = [...answers]
  taken()
  await asked
  assert.deepEqual(early, ['withdrawn'])
})

test('a handover that takes long is answered after a while, and asked for again', async (t) => {
  const { round, host, source, move, settle, clock, handOver } = await leaveStage(t)
  await got(round(1))
  const taken = host.rounds.holdNext('ensureRound')
  const answers: unknown[] = []
  const asked = got(source().handOver(move, never)).then(({ stage }) => answers.push(stage))
  await settle()
  clock.advance(limits.handoverPollMs)
  await settle()
  const early = [...answers]
  taken()
  await asked
  assert.deepEqual(early, ['handing_over'])
  assert.equal((await got(handOver())).stage, 'handed_over')
})

test('an answer that was waited for leaves nothing that watches the records', async (t) => {
  const { store, toHandedOver, source, move, receive } = await leaveStage(t)
  let watching = 0
  const onVmChange = store.onVmChange.bind(store)
  t.mock.method(store, 'onVmChange', (...args: Parameters<typeof onVmChange>) => {
    const stopWatching = onVmChange(...args)
    watching += 1
    return () => {
      watching -= 1
      stopWatching()
    }
  })
  await toHandedOver()
  receive('one')
  await got(source().reads.heldPackets(move, { after: 0, waitMs: 0 }, never))
  assert.equal(watching, 0)
})
