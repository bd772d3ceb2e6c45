import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleepStage } from '../../../test/sleep-stage.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { HostFault } from '../../core/errors.ts'
import { readCounters } from './counters.ts'

test('each figure says since when it counts: CPU and disk since the last start or wake, traffic since its device came, wakes since the creation', async (t) => {
  const { host, vm, id, idle, later, receive, fallAsleep, context } = await sleepStage(t)
  const created = vm().createdAtMs
  const read = () => readCounters(host, vm())
  const first = await read()
  host.fakeUnits.cpu.set(id, 1_234_999)
  assert.equal((await read()).cpu?.usedMs, 1234)
  assert.deepEqual(
    [first.wakes, first.restarts],
    [
      { count: 0, sinceMs: created },
      { count: 0, sinceMs: created },
    ],
  )
  const { startedAtMs } = vm().observed
  assert.equal(first.cpu?.sinceMs, startedAtMs)
  assert.equal(first.disk?.sinceMs, startedAtMs)
  assert.ok(first.network !== undefined && first.network.sinceMs >= created)
  await fallAsleep()
  const asleep = await read()
  assert.deepEqual([asleep.cpu, asleep.disk], [undefined, undefined])
  assert.equal(asleep.network?.sinceMs, first.network.sinceMs)
  await later(60_000)
  receive('wakes it')
  await idle()
  const awake = await read()
  assert.ok(awake.cpu !== undefined && awake.cpu.sinceMs > (startedAtMs ?? 0))
  assert.equal(awake.network?.sinceMs, first.network.sinceMs)
  assert.deepEqual(awake.wakes, { count: 1, sinceMs: created })
  setPower(context, id, 'stopped')
  await later(60_000)
  assert.equal((await read()).network?.sinceMs, first.network.sinceMs)
  host.taps.devices.delete(vm().host.device)
  await idle()
  assert.equal((await read()).network, undefined)
  setPower(context, id, 'running')
  await idle()
  assert.equal((await read()).network?.sinceMs, host.clock.now())
})

test('a tap that is made again counts from then on', async (t) => {
  const { host, vm, id, idle, later, context } = await sleepStage(t)
  const since = async (): Promise<number | undefined> => (await readCounters(host, vm())).network?.sinceMs
  assert.notEqual(await since(), undefined)
  await later(60_000)
  const tap = host.taps.devices.get(vm().host.device)
  assert.ok(tap?.kind === 'tap')
  const facts = { ...tap.facts, macAddress: '02:00:00:00:00:01' }
  host.taps.devices.set(vm().host.device, { ...tap, facts })
  setPower(context, id, 'stopped')
  await idle()
  setPower(context, id, 'running')
  await idle()
  assert.equal(await since(), host.clock.now())
})

test('the wakes of a VM that woke before they were counted count from the next one on', async (t) => {
  const { host, vm, id, idle, receive, store, fallAsleep } = await sleepStage(t)
  const wake = async (): Promise<void> => {
    await fallAsleep()
    receive('wakes it')
    await idle()
  }
  await wake()
  const { wakes: _counted, ...before } = vm().observed
  store.vms.recordProgress(id, { observed: before, nowMs: host.clock.now() })
  assert.equal((await readCounters(host, vm())).wakes, undefined)
  await wake()
  await wake()
  const { wakes } = await readCounters(host, vm())
  assert.deepEqual(wakes?.count, 2)
  assert.ok((wakes?.sinceMs ?? 0) > vm().createdAtMs)
})

test('a guest that ends while its counters are read has none, and that is not a fault', async (t) => {
  const { host, vm, id, idle, context } = await sleepStage(t)
  const release = host.monitor.holdNext('diskCounters')
  const reading = readCounters(host, vm())
  setPower(context, id, 'stopped')
  await idle()
  release()
  const { cpu, disk, network } = await reading
  assert.deepEqual([cpu, disk], [undefined, undefined])
  assert.notEqual(network, undefined)
})

test('a guest that goes on has no counters while its monitor does not answer, and the fault says so', async (t) => {
  const { host, vm } = await sleepStage(t)
  host.monitor.failNext('diskCounters', new HostFault('monitor_unreachable', 'reading the disk counters'))
  await assert.rejects(readCounters(host, vm()), {
    code: 'monitor_unreachable',
  })
})
