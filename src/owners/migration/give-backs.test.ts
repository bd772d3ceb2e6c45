import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { arrivalsOf } from '../../../test/arrivals-of.ts'
import { commandStage } from '../../../test/command-stage.ts'
import { eventually } from '../../../test/daemon/support/eventually.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { offered } from '../../../test/offered-vm.ts'
import { recordOf } from '../../../test/record.ts'
import { takeVm } from '../../commands/migration/take-vm.ts'
import { deleteVm } from '../../commands/vm/delete-vm.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { abortable } from '../../lib/abortable.ts'
import { err, ok } from '../../lib/result.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { SourceHost } from '../../ports/source-host.ts'

const id = 'web-1' as VmId

type Answer = Awaited<ReturnType<SourceHost['abort']>> | undefined

/** A VM that comes from a source, which gives these answers to requests to take it back: none if undefined. */
async function stage(t: TestContext, answers: readonly Answer[]) {
  const { context, store, accepted } = commandStage(t)
  const clock = new FakeClock({ nowMs: 1000 })
  const host = new FakeHost(clock, store.storeId)
  const { network: _none, ...desired } = recordOf().desired
  const take = (arrivalId: string): void =>
    void accepted(
      takeVm(context, id, {
        ...offered(id, { ...recordOf(), desired }),
        arrivalId: arrivalId as ArrivalId,
      }),
    )
  const asked: string[] = []
  let copied = 0
  const source: Partial<SourceHost> = {
    manifest: (_id, signal) => {
      copied += 1
      return abortable(new Promise<never>(() => {}), signal)
    },
    abort: async ({ arrival }) => {
      asked.push(arrival)
      const answer = answers[Math.min(asked.length, answers.length) - 1]
      if (answer === undefined) throw new HostFault('source_unreachable', 'on purpose')
      return answer
    },
  }
  t.mock.method(host.sourceHosts, 'at', () => source)
  take('a-1')
  let arrivals = arrivalsOf(t, { store, host })
  await arrivals.start()
  await eventually(() => copied === 1)
  assert.ok(deleteVm(context, id).ok)
  await eventually(() => asked.length === 1)
  await turn()
  const after = async (ms: number): Promise<number> => {
    clock.advance(ms)
    await turn()
    return asked.length
  }
  return {
    host,
    stop: () => arrivals.stop(),
    store,
    clock,
    take,
    asked,
    after,
    copied: () => copied,
    /** Ends the daemon's part of this, and begins that of the next daemon. */
    restart: async () => {
      await arrivals.stop()
      arrivals = arrivalsOf(t, { store, host })
      await arrivals.start()
    },
  }
}

test('the source of a VM that was deleted here is asked every second until it answers', async (t) => {
  const { after } = await stage(t, [undefined, err('busy'), undefined, ok(undefined)])
  assert.equal(await after(limits.handoverLookMs - 1), 1)
  assert.equal(await after(1), 2)
  assert.equal(await after(limits.handoverLookMs), 3)
  assert.equal(await after(limits.handoverLookMs), 4)
  assert.equal(await after(limits.roundsRetryMs), 4)
})

test('a source that has decided otherwise has answered', async (t) => {
  const { after } = await stage(t, [undefined, err('released')])
  assert.equal(await after(limits.handoverLookMs), 2)
  assert.equal(await after(limits.roundsRetryMs), 2)
})

test('a source that stays silent is asked every minute, and not beyond the end of its offer', async (t) => {
  const { after } = await stage(t, [undefined])
  assert.equal(await after(limits.handoverMsMax), 2)
  assert.equal(await after(limits.handoverLookMs), 2)
  assert.equal(await after(limits.roundsRetryMs), 3)
  assert.equal(await after(limits.offerMsMax), 4)
  assert.equal(await after(limits.roundsRetryMs), 4)
})

test('a source is not asked for the attempt before, when its VM comes again', async (t) => {
  const { store, take, after, copied, asked } = await stage(t, [undefined])
  store.vms.forget(id, 2000)
  take('a-2')
  await eventually(() => copied() === 2)
  await after(limits.handoverLookMs)
  assert.deepEqual(asked, ['a-1'])
})

test('a daemon that stops asks no source any more', async (t) => {
  const { stop, after } = await stage(t, [undefined])
  await stop()
  assert.equal(await after(limits.handoverLookMs), 1)
})

test('the next daemon asks the source of a VM that was deleted here, until it answers', async (t) => {
  const { restart, store, after } = await stage(t, [undefined, undefined, ok(undefined)])
  store.vms.forget(id, 2000)
  await restart()
  assert.equal(await after(limits.handoverLookMs), 2)
  assert.equal(await after(limits.handoverLookMs), 3)
  await restart()
  assert.equal(await after(limits.handoverLookMs), 3)
})

test('the next daemon asks the source of a VM whose deletion is not done at once, and removes its disk', async (t) => {
  const { restart, host, store, asked, after } = await stage(t, [undefined, ok(undefined)])
  const arrivalId = store.vms.get(id)?.arrival?.id ?? assert.fail('it does not come')
  await (await host.incomingDisks.open(arrivalId, { number: 1, sizeBytes: 4096 })).close()
  await restart()
  await eventually(() => asked.length === 2)
  await turn()
  assert.deepEqual(await host.incomingDisks.list(), [])
  assert.equal(await after(limits.handoverLookMs), 2)
})

test('the next daemon asks no source whose offer must be over', async (t) => {
  const { restart, store, clock, after } = await stage(t, [undefined])
  store.vms.forget(id, 2000)
  clock.set(limits.offerMsMax)
  await restart()
  assert.equal(await after(limits.handoverLookMs), 1)
})

test('the next daemon does not ask a source for the attempt before, when its VM comes again', async (t) => {
  const { restart, store, take, asked, after, copied } = await stage(t, [undefined])
  store.vms.forget(id, 2000)
  take('a-2')
  await restart()
  await eventually(() => copied() >= 2)
  await after(limits.handoverLookMs)
  assert.deepEqual(asked, ['a-1'])
})
