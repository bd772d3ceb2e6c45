import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { breakRecord } from '../../test/break-record.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { IDLE_MS, SLEEPER, sleepStage } from '../../test/sleep-stage.ts'
import { limits } from '../config/limits.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { HostFault } from '../core/errors.ts'
import type { FakeHost } from '../../test/fakes/fake-host.ts'
import type { VmId } from '../core/ids.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { TapFacts } from '../core/world/network-state.ts'

/** Returns how many times the pool was asked about a VM during what it does. */
async function looksDuring(
  host: { readonly storage: { inspect(...args: never[]): unknown } },
  act: () => Promise<void>,
) {
  const looks = mock.method(host.storage, 'inspect').mock
  await act()
  const count = looks.callCount()
  looks.restore()
  return count
}

test('a daemon that is stopped before its first looks has none afterwards', async (t) => {
  const { host, stop, begin } = await sleepStage(t)
  await stop()
  const { reconciler } = begin()
  await reconciler.stop()
  assert.equal(await looksDuring(host, () => reconciler.start()), 0)
})

test('a start looks at a sleeping VM later, and its guest wakes from the first packet on', async (t) => {
  const { host, stop, start, later, idle, receive, given, shown, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  await stop()
  assert.equal(await looksDuring(host, start), 0)
  assert.equal(await looksDuring(host, () => later(limits.resyncMs)), 1)
  assert.equal(shown(), 'sleeping')
  await stop()
  await start()
  receive('wakes it')
  await idle()
  assert.equal(shown(), 'running')
  assert.deepEqual(given(), ['wakes it'])
})

test('a guest that is started while the daemon starts sleeps when it is idle', async (t) => {
  // So many that the first looks at them take longer than the guest may be idle.
  const vmsMax = 4 * limits.resyncsPerSecondMax * SLEEPER.sleepAfterIdleSeconds
  const stage = await sleepStage(t, { vmsMax })
  const { host, id, context, create, stop, start, idle, turns, later, shown } = stage
  for (let number = 2; number <= vmsMax; number += 1)
    create(
      { power: 'stopped', network: { ipv6Address: `2001:db8::${number.toString(16)}` } },
      `web-${number}` as VmId,
    )
  setPower(context, id, 'stopped')
  await idle()
  await stop()
  const listing = host.storage.holdNext('list')
  const started = start()
  await turns()
  setPower(context, id, 'running')
  await turns()
  assert.equal(shown(), 'running')
  listing()
  await started
  await later(IDLE_MS)
  assert.equal(shown(), 'sleeping')
})

test('a packet that came while no daemon ran wakes its guest', async (t) => {
  const { stop, start, idle, receive, given, shown, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  await stop()
  receive('came without a daemon')
  await start()
  await idle()
  assert.equal(shown(), 'running')
  assert.deepEqual(given(), ['came without a daemon'])
})

function alterTap({ taps }: FakeHost, { host: { device } }: VmRecord, change: Partial<TapFacts>): void {
  const found = taps.devices.get(device)
  assert.ok(found?.kind === 'tap')
  taps.devices.set(device, { ...found, facts: { ...found.facts, ...change } })
}

const differences: Record<string, (stage: Awaited<ReturnType<typeof sleepStage>>) => unknown> = {
  'has no tap, as after a boot': ({ host, vm }) => host.taps.devices.delete(vm().host.device),
  'has a tap that lost a route': ({ host, vm }) => alterTap(host, vm(), { routes: [] }),
  'has a tap that lost its neighbours': ({ host, vm }) => alterTap(host, vm(), { neighbours: [] }),
  'has a tap that its monitor gave to a group': ({ host, vm }) => alterTap(host, vm(), { group: 7 }),
  'has a tap that is down': ({ host, vm }) => alterTap(host, vm(), { up: false }),
  'has no files in the pool': ({ host, id }) =>
    host.storage.disks.delete(id) && host.storage.seeds.delete(id),
  'has frames that are not held': ({ host, vm }) => host.traffic.ensureFlowing(vm().host, { deliver: false }),
  'has a tap that cannot be seen': ({ host }) =>
    host.taps.failNext('inspect', new HostFault('network_failed', 'on purpose')),
  'cannot be listed': ({ host }) =>
    host.storage.failNext('list', new HostFault('storage_failed', 'on purpose')),
}

for (const [name, makeDifferent] of Object.entries(differences)) {
  test(`a start looks at once at a sleeping VM that ${name}`, async (t) => {
    const stage = await sleepStage(t)
    const { host, stop, start, fallAsleep } = stage
    await fallAsleep()
    await stop()
    await makeDifferent(stage)
    assert.ok((await looksDuring(host, start)) > 0)
  })
}

test('a start looks at once at a VM that runs, or has work to do', async (t) => {
  const { host, id, context, create, idle, stop, start, vm } = await reconcileStage(t)
  create()
  await idle()
  await stop()
  assert.ok((await looksDuring(host, start)) > 0)
  await stop()
  setPower(context, id, 'stopped')
  assert.ok((await looksDuring(host, start)) > 0)
  assert.equal(vm().observed.state, 'stopped')
  await stop()
  assert.equal(await looksDuring(host, start), 0)
})

test('a packet for a VM whose record cannot be read ends no daemon, and others wake', async (t) => {
  const { directory, host, store, createAnother, later, idle, receive, shown } = await sleepStage(t)
  createAnother(12)
  await idle()
  await later(IDLE_MS)
  const { device } = store.vms.get('web-12' as VmId)?.host ?? assert.fail('it is gone')
  breakRecord(directory, 'web-12' as VmId)
  host.traffic.receive(device, { name: 'for the other' })
  await idle()
  receive('first')
  await idle()
  assert.equal(shown(), 'running')
})
