import assert from 'node:assert/strict'
import { test } from 'node:test'
import { got, leaveStage, never, said } from '../../../test/leave-stage.ts'
import { offerVm, withdrawOffer } from '../../commands/migration/offer-vm.ts'
import { limits } from '../../config/limits.ts'
import { CopyEnded, StreamsFull } from './copy-places.ts'
import type { Sha256, VmId } from '../../core/ids.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'

async function drained(chunks: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0
  for await (const chunk of chunks) bytes += chunk.length
  return bytes
}

test('a stream is cut when its migration is decided, or another attempt copies', async (t) => {
  const { round, source, move, context, id, settle } = await leaveStage(t)
  await got(round(1))
  const read = async () => {
    const frames = await got(source().reads.roundFrames(move, { number: 1, from: 0 }, never))
    const iterator = frames[Symbol.asyncIterator]()
    await iterator.next()
    return iterator
  }
  const first = await read()
  await got(source().ensureRound({ ...move, arrival: 'second' as ArrivalId }, 1, never))
  await assert.rejects(first.next(), CopyEnded)
  await got(source().ensureRound(move, 1, never))
  const second = await read()
  assert.ok(withdrawOffer(context, id).ok)
  await settle()
  await assert.rejects(second.next(), CopyEnded)
  assert.equal(await said(source().reads.roundFrames(move, { number: 1, from: 0 }, never)), 'withdrawn')
})

test('memory and console are read once the guest is handed over, and not before', async (t) => {
  const { round, handOver, source, move, host, id } = await leaveStage(t)
  await got(round(1))
  assert.equal(await said(source().reads.memoryFrames(move, 0, never)), 'too_early')
  assert.equal(await said(source().reads.console(move, never)), 'too_early')
  await got(handOver())
  assert.ok((await drained(await got(source().reads.memoryFrames(move, 0, never)))) > 0)
  const session = await got(source().reads.console(move, never))
  assert.equal(session?.session, host.consoles.lastSession(id)?.id)
})

test('of the images only kernel and initrd are read', async (t) => {
  const { source, move, vm } = await leaveStage(t)
  const { kernelSha256, rootfsSha256 } = vm().desired.image
  assert.equal(await drained(await got(source().reads.image(move, kernelSha256, never))), 'kernel'.length)
  for (const sha256 of [rootfsSha256, 'f'.repeat(64) as Sha256])
    assert.equal(await said(source().reads.image(move, sha256, never)), 'unknown')
})

test('held packets are read in order, and forgotten only after the release', async (t) => {
  const { toHandedOver, source, move, receive, later, host, vm, settle } = await leaveStage(t)
  const read = (after: number, waitMs = 0) => source().reads.heldPackets(move, { after, waitMs }, never)
  assert.equal(await said(read(0)), 'not_yours')
  await toHandedOver()
  receive('one')
  receive('two')
  const numbers = async (after: number): Promise<number[]> =>
    (await got(read(after))).map(({ number }) => number)
  assert.deepEqual(await numbers(0), [1, 2])
  assert.deepEqual(await numbers(2), [])
  assert.deepEqual(await numbers(0), [1, 2])
  await got(source().release(move, 2))
  await settle()
  const waiting = read(2, 5000)
  await settle()
  receive('three')
  assert.deepEqual(
    (await got(waiting)).map(({ number }) => number),
    [3],
  )
  assert.deepEqual(await numbers(0), [3])
  await later(limits.departedFramesMs)
  assert.equal(host.taps.devices.has(vm().host.device), false)
})

test('a host copies a bounded number of VMs, and a destination that died gives its place up', async (t) => {
  const { createAnother, idle, source, move, context, clock, round } = await leaveStage(t)
  const others = [2, 3].map((number) => {
    createAnother(number + 20)
    return { vm: `web-${number + 20}` as VmId, move: { ...move, id: `move-${number + 20}` as MigrationId } }
  })
  await idle()
  for (const { vm, move: as } of others) {
    const { id, node } = as
    assert.ok(offerVm(context, vm, { id, node, mode: 'live', expiresAtMs: clock.now() + 3_600_000 }).ok)
  }
  await idle()
  const [second, third] = others.map(({ move: as }) => source().ensureRound(as, 1, never))
  assert.equal(limits.departuresAtOnceMax, 2)
  assert.equal(typeof (await said(second ?? round(1))), 'object')
  assert.equal(typeof (await said(third ?? round(1))), 'object')
  assert.equal(await said(round(1)), 'busy')
  const [ended] = others
  await got(source().abort(ended?.move ?? move))
  assert.equal(typeof (await said(round(1))), 'object')
  const again = 'web-22' as VmId
  const { node } = move
  const expiresAtMs = clock.now() + 3_600_000
  assert.ok(offerVm(context, again, { id: 'move-again' as MigrationId, node, mode: 'live', expiresAtMs }).ok)
  const asked = { ...move, id: 'move-again' as MigrationId }
  assert.equal(await said(source().ensureRound(asked, 1, never)), 'busy')
  clock.advance(limits.departureIdleMs)
  assert.equal(typeof (await said(source().ensureRound(asked, 1, never))), 'object')
})

test('an image that is read takes no place among the VMs that are copied, and keeps none', async (t) => {
  const { createAnother, idle, source, move, context, clock, vm, round } = await leaveStage(t)
  for (const number of [21, 22]) createAnother(number)
  await idle()
  const [second, third] = ['web-21', 'web-22'].map((name) => {
    const { node } = move
    const id = `move-${name}` as MigrationId
    const expiresAtMs = clock.now() + 3_600_000
    assert.ok(offerVm(context, name as VmId, { id, node, mode: 'live', expiresAtMs }).ok)
    return { ...move, id }
  }) as [typeof move, typeof move]
  await idle()
  await got(round(1))
  await got(source().ensureRound(second, 1, never))
  const { kernelSha256 } = vm().desired.image
  const chunks = await got(source().reads.image(third, kernelSha256, never))
  const reading = chunks[Symbol.asyncIterator]()
  await reading.next()
  assert.equal(typeof (await said(source().ensureRound(second, 2, never))), 'object')
  await reading.return?.()
  assert.equal(typeof (await said(source().ensureRound(second, 2, never))), 'object')
  assert.equal(await said(source().ensureRound(third, 1, never)), 'busy')
})

test('an image that is read is cut when its migration is decided', async (t) => {
  const { source, move, context, id, vm, host, settle } = await leaveStage(t)
  t.mock.method(host.storage, 'readImage', async function* (_sha256: Sha256, signal: AbortSignal) {
    for (; !signal.aborted;) yield new Uint8Array(1)
    throw signal.reason
  })
  const chunks = await got(source().reads.image(move, vm().desired.image.kernelSha256, never))
  const reading = chunks[Symbol.asyncIterator]()
  await reading.next()
  assert.ok(withdrawOffer(context, id).ok)
  await settle()
  await assert.rejects(reading.next(), CopyEnded)
})

test('a stream that its destination does not read gives its place up when the offer is withdrawn', async (t) => {
  const { createAnother, idle, source, move, context, clock, id, round } = await leaveStage(t)
  const begin = async (as: typeof move): Promise<void> => {
    const frames = await got(source().reads.roundFrames(as, { number: 1, from: 0 }, never))
    await frames[Symbol.asyncIterator]().next()
  }
  const offer = (vm: VmId, name: string): typeof move => {
    const { node } = move
    const expiresAtMs = clock.now() + 3_600_000
    assert.ok(offerVm(context, vm, { id: name as MigrationId, node, mode: 'live', expiresAtMs }).ok)
    return { ...move, id: name as MigrationId }
  }
  for (const number of [21, 22]) createAnother(number)
  await idle()
  const [second, third] = [offer('web-21' as VmId, 'move-21'), offer('web-22' as VmId, 'move-22')]
  await idle()
  await got(round(1))
  await begin(move)
  await got(source().ensureRound(second, 1, never))
  await begin(second)
  assert.equal(await said(source().ensureRound(third, 1, never)), 'busy')
  assert.ok(withdrawOffer(context, id).ok)
  await idle()
  assert.equal(typeof (await said(source().ensureRound(third, 1, never))), 'object')
})

test('a destination has a bounded number of streams, until one of them ends', async (t) => {
  const { round, source, move } = await leaveStage(t)
  await got(round(1))
  const begin = async () => {
    const frames = await got(source().reads.roundFrames(move, { number: 1, from: 0 }, never))
    const iterator = frames[Symbol.asyncIterator]()
    await iterator.next()
    return iterator
  }
  const open = await Promise.all(Array.from({ length: limits.streamsPerOfferMax }, begin))
  await assert.rejects(begin(), StreamsFull)
  await open[0]?.return?.()
  await begin()
  await assert.rejects(begin(), StreamsFull)
})

test('a wait ends when the client goes away', async (t) => {
  const { toHandedOver, source, move, settle } = await leaveStage(t)
  await toHandedOver()
  const gone = new AbortController()
  const waiting = source().reads.heldPackets(move, { after: 0, waitMs: 5000 }, gone.signal)
  await settle()
  gone.abort(new Error('gone'))
  await assert.rejects(waiting, /gone/)
})

test('all streams together keep to the bandwidth of the configuration', async (t) => {
  const { round, source, move, write, settle, later } = await leaveStage(t, 'live', {
    coordination: { mbitPerSecond: 1 },
  })
  for (let block = 0; block < 16; block += 1) write(block, block + 1)
  await got(round(1))
  const sent = [0, 0]
  const streams = sent.map(async (_, stream) => {
    const frames = await got(source().reads.roundFrames(move, { number: 1, from: 0 }, never))
    for await (const chunk of frames) sent[stream] = (sent[stream] ?? 0) + chunk.length
  })
  await settle()
  // 64 KiB may pass at once, and a megabit is 125,000 bytes a second.
  assert.ok(sent[0] === 0 || sent[1] === 0, `both streams were sent at once: ${sent.join(', ')}`)
  await later(2000)
  await settle()
  await Promise.all(streams)
  assert.ok(sent.every((bytes) => bytes > 16 * 4096))
})
