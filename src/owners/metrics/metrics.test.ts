import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { HostFault } from '../../core/errors.ts'
import { allMetrics, seriesPerVm } from '../../core/metrics/catalogue.ts'
import { samplesIn, seriesOf, valueIn } from '../../../test/metrics-text.ts'
import { reconcileStage } from '../../../test/reconcile-stage.ts'
import { sleepStage } from '../../../test/sleep-stage.ts'
import type { VmId } from '../../core/ids.ts'
import type { Metrics } from './metrics.ts'

type Stage = { readonly clock: { advance(ms: number): void }; readonly metrics: () => Metrics }

/** Takes a new look: readers share an answer for some time. */
function scrape({ clock, metrics }: Stage): Promise<string> {
  clock.advance(limits.metricsAgeMsMax)
  return metrics().scrape()
}

test('a running VM has its figures, within the bound, and they go with its record', async (t) => {
  const stage = await reconcileStage(t)
  const { id } = stage
  stage.create()
  await stage.idle()
  stage.host.fakeUnits.cpu.set(id, 2_500_000)
  stage.host.fakeUnits.memory.set(id, { anonymousBytes: 4096, fileBytes: 8192 })
  const text = await scrape(stage)
  const value = (name: string, labels = {}): number | undefined => valueIn(text, name, { vm: id, ...labels })
  assert.equal(value('vmhostd_vm_state', { state: 'running' }), 1)
  assert.equal(value('vmhostd_vm_cpu_seconds_total'), 2.5)
  assert.equal(value('vmhostd_vm_resident_memory_bytes', { kind: 'anonymous' }), 4096)
  assert.equal(value('vmhostd_vm_resident_memory_bytes', { kind: 'file' }), 8192)
  assert.equal(value('vmhostd_vm_restarts_total'), 0)
  assert.notEqual(value('vmhostd_vm_network_receive_bytes_total'), undefined)
  assert.notEqual(value('vmhostd_vm_disk_reads_total'), undefined)
  assert.equal(valueIn(text, 'vmhostd_vms', { state: 'running' }), 1)
  assert.equal(valueIn(text, 'vmhostd_vms', { state: 'failed' }), 0)
  assert.ok(seriesOf(text, id).length <= seriesPerVm())
  stage.context.store.vms.changeDesired(id, {
    deleting: true,
    operationId: stage.context.newOperationId(),
    nowMs: stage.clock.now(),
  })
  stage.context.poke(id, 'deleted')
  await stage.idle()
  const after = await scrape(stage)
  assert.deepEqual(seriesOf(after, id), [])
  assert.ok(!after.includes(id))
})

test('the daemon shows its own descriptors and timers', async (t) => {
  const stage = await reconcileStage(t)
  const text = await scrape(stage)
  const value = (name: string): number => valueIn(text, name) ?? assert.fail(`${name} is absent`)
  assert.ok(value('vmhostd_records_available_bytes') > 0)
  assert.ok(value('process_open_fds') > 0)
  assert.ok(value('process_open_fds') < value('process_max_fds'))
  const deadline = setTimeout(() => {}, 60_000)
  const later = await scrape(stage)
  clearTimeout(deadline)
  assert.equal(valueIn(later, 'vmhostd_timers'), value('vmhostd_timers') + 1)
})

test('every sample is of a metric of the catalogue, with its labels', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  const known = new Map(allMetrics.map((metric) => [metric.name, metric]))
  for (const { name, labels } of samplesIn(await scrape(stage))) {
    const metric = known.get(name) ?? known.get(name.replace(/_(bucket|sum|count)$/, ''))
    assert.ok(metric !== undefined, name)
    const { le: _bucket, ...own } = labels
    assert.deepEqual(Object.keys(own).toSorted(), [...metric.labels].toSorted(), name)
    assert.equal('vm' in own, 'perVm' in metric.bound, name)
  }
})

test('no metric has more series than its bound, however many VMs there are', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  for (const number of [2, 3, 4, 5])
    stage.create({ network: { ipv4Address: `192.0.2.${number + 50}` } }, `web-${number}` as VmId)
  await stage.idle()
  const samples = samplesIn(await scrape(stage))
  const vms = stage.store.vms.ids().length
  assert.equal(vms, 5)
  for (const { name, kind, bound } of allMetrics) {
    const series = samples.filter((sample) => sample.name === (kind === 'histogram' ? `${name}_count` : name))
    // Those of routes are bounded in test/daemon/metrics-api.
    const most: number = 'perVm' in bound ? bound.perVm * vms : 'host' in bound ? bound.host : 0
    assert.ok(series.length <= most, `${name}: ${series.length} series, and at most ${most}`)
  }
})

test('a figure that cannot be measured is absent, and its collector says so', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  const { fakeUnits, staging } = stage.host
  fakeUnits.failNext('cpuTime', new HostFault('capacity_unknown', 'no control groups'))
  staging.failNext('list', new HostFault('storage_inspection_failed', 'the pool is gone'))
  const text = await scrape(stage)
  assert.equal(valueIn(text, 'vmhostd_vm_cpu_seconds_total', { vm: stage.id }), undefined)
  assert.equal(valueIn(text, 'vmhostd_staging_packed_bytes'), undefined)
  assert.notEqual(valueIn(text, 'vmhostd_staging_quota_bytes'), undefined)
  for (const [collector, success] of [
    ['vm_cpu', 0],
    ['staging', 0],
    ['vm_memory', 1],
    ['vms', 1],
  ] as const)
    assert.equal(valueIn(text, 'vmhostd_collector_success', { collector }), success, collector)
  const next = await scrape(stage)
  assert.equal(valueIn(next, 'vmhostd_collector_success', { collector: 'vm_cpu' }), 1)
})

test('a look that does not end is left behind, and is not begun a second time', async (t) => {
  const stage = await reconcileStage(t)
  const release = stage.host.staging.holdNext('list')
  const scraping = scrape(stage)
  await stage.turns()
  stage.clock.advance(limits.metricsLookMs)
  const text = await scraping
  assert.equal(valueIn(text, 'vmhostd_staging_packed_bytes'), undefined)
  assert.equal(valueIn(text, 'vmhostd_collector_success', { collector: 'staging' }), 0)
  assert.equal(valueIn(text, 'vmhostd_collector_success', { collector: 'host' }), 1)
  assert.equal(valueIn(await scrape(stage), 'vmhostd_staging_packed_bytes'), undefined)
  release()
  await stage.turns()
  assert.equal(valueIn(await scrape(stage), 'vmhostd_staging_packed_bytes'), 0)
})

test('a monitor that does not answer hides its own figures alone', async (t) => {
  const stage = await reconcileStage(t)
  const other = 'web-2' as VmId
  stage.create()
  stage.create({ network: { ipv4Address: '192.0.2.77' } }, other)
  await stage.idle()
  const release = stage.host.monitor.holdNext('diskCounters')
  t.after(release)
  const first = scrape(stage)
  await stage.turns()
  stage.clock.advance(limits.metricsLookMs)
  await first
  const text = await scrape(stage)
  const known = [stage.id, other].filter(
    (vm) => valueIn(text, 'vmhostd_vm_disk_reads_total', { vm }) !== undefined,
  )
  assert.equal(known.length, 1)
  assert.equal(valueIn(text, 'vmhostd_collector_success', { collector: 'vm_disk' }), 0)
})

test('a counter that is not a number, or negative, hides itself alone', async (t) => {
  const stage = await reconcileStage(t)
  const { id, host } = stage
  stage.create()
  await stage.idle()
  const good = { readBytes: 7, readOperations: 1, writtenBytes: 1, writeOperations: 1 }
  for (const figure of [-1, NaN, Infinity, '1', {}] as number[]) {
    host.monitor.counters.set(id, { ...good, readOperations: figure })
    const text = await scrape(stage)
    const value = (name: string): number | undefined => valueIn(text, `vmhostd_vm_disk_${name}`, { vm: id })
    assert.equal(value('reads_total'), undefined, String(figure))
    assert.equal(value('read_bytes_total'), 7)
  }
})

test('readers share an answer for a short time', async (t) => {
  const stage = await reconcileStage(t)
  const before = stage.host.fakeUnits.measurements
  const [one, two] = await Promise.all([stage.metrics().scrape(), stage.metrics().scrape()])
  assert.equal(one, two)
  stage.clock.advance(limits.metricsAgeMsMax - 1)
  await stage.metrics().scrape()
  assert.equal(stage.host.fakeUnits.measurements, before + 1)
  stage.clock.advance(1)
  await stage.metrics().scrape()
  assert.equal(stage.host.fakeUnits.measurements, before + 2)
})

test('a reader that comes while a scrape waits for the host has the answer of that scrape', async (t) => {
  const stage = await reconcileStage(t)
  const before = stage.host.fakeUnits.measurements
  const release = stage.host.staging.holdNext('list')
  t.after(release)
  const first = scrape(stage)
  await stage.turns()
  stage.clock.advance(limits.metricsAgeMsMax)
  const second = stage.metrics().scrape()
  await stage.turns()
  stage.clock.advance(limits.metricsLookMs - limits.metricsAgeMsMax)
  const text = await first
  assert.ok((await second) === text, 'the second reader began another scrape')
  assert.equal(valueIn(text, 'vmhostd_collector_success', { collector: 'host' }), 1)
  stage.clock.advance(limits.metricsAgeMsMax - 1)
  assert.ok((await stage.metrics().scrape()) === text, 'the age counts from the end of the scrape')
  assert.equal(stage.host.fakeUnits.measurements, before + 1)
})

test('steps, their failures and plans are counted, and a fault has its time', async (t) => {
  const stage = await reconcileStage(t)
  stage.host.taps.failNext('ensure', new HostFault('network_failed', 'no room for a device'))
  stage.create()
  await stage.idle()
  const text = await stage.metrics().scrape()
  const step = 'network.ensure-tap'
  assert.equal(valueIn(text, 'vmhostd_step_failures_total', { step, code: 'network_failed' }), 1)
  assert.equal(valueIn(text, 'vmhostd_pass_failures_total', { step, code: 'network_failed' }), 1)
  assert.equal(valueIn(text, 'vmhostd_step_duration_seconds_count', { step }), 1)
  assert.ok((valueIn(text, 'vmhostd_pass_duration_seconds_count') ?? 0) >= 1)
  assert.ok((valueIn(text, 'vmhostd_plans_total', { outcome: 'act' }) ?? 0) >= 1)
  const labels = { vm: stage.id, code: 'network_failed' }
  const sinceMs = stage.vm().observed.fault?.sinceMs ?? NaN
  assert.equal(valueIn(text, 'vmhostd_vm_fault_since_timestamp_seconds', labels), sinceMs / 1000)
})

test('a wake is counted for its VM, on record, and its duration by its reason', async (t) => {
  const stage = await sleepStage(t)
  await stage.fallAsleep()
  const asleep = await scrape(stage)
  assert.equal(valueIn(asleep, 'vmhostd_vm_wakes_total', { vm: stage.id }), 0)
  assert.equal(valueIn(asleep, 'vmhostd_vm_cpu_seconds_total', { vm: stage.id }), undefined)
  stage.receive('first')
  await stage.idle()
  assert.equal(stage.shown(), 'running')
  const text = await scrape(stage)
  assert.equal(valueIn(text, 'vmhostd_vm_wakes_total', { vm: stage.id }), 1)
  assert.equal(valueIn(text, 'vmhostd_wake_duration_seconds_count', { reason: 'traffic' }), 1)
})

test('traffic of a running VM that cannot be read is absent, and its collector says so', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  const look = async (): Promise<readonly unknown[]> => {
    const text = await scrape(stage)
    return [
      valueIn(text, 'vmhostd_vm_network_receive_bytes_total', { vm: stage.id }) !== undefined,
      valueIn(text, 'vmhostd_collector_success', { collector: 'vm_network' }),
    ]
  }
  assert.deepEqual(await look(), [true, 1])
  stage.host.taps.failNext('counters', new HostFault('network_failed', 'no counters'))
  assert.deepEqual(await look(), [false, 0])
  setPower(stage.context, stage.id, 'stopped')
  await stage.idle()
  stage.host.taps.failNext('counters', new HostFault('network_failed', 'no device'))
  assert.deepEqual(await look(), [false, 1], 'a stopped VM may have no device')
})

test('the drops of packets that a guest did not take do not fall when its bandwidth limit is removed', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  const { device } = stage.vm().host
  const drops = async (): Promise<readonly unknown[]> => {
    const text = await scrape(stage)
    return ['limit', 'not_taken'].map((reason) =>
      valueIn(text, 'vmhostd_vm_network_receive_drop_packets_total', { vm: stage.id, reason }),
    )
  }
  stage.host.taps.count(device, { receiveDroppedPackets: 7, receiveLimitedPackets: 4 })
  assert.deepEqual(await drops(), [4, 3])
  stage.host.taps.count(device, { receiveDroppedPackets: 3, receiveLimitedPackets: 0 })
  assert.deepEqual(await drops(), [0, 3])
})

test('a timer that fires late is a delay of the event loop', async (t) => {
  const stage = await reconcileStage(t)
  stage.metrics().start()
  t.after(() => stage.metrics().stop())
  stage.clock.advance(limits.loopDelayEveryMs)
  const text = await scrape(stage)
  assert.ok((valueIn(text, 'vmhostd_event_loop_delay_seconds_count') ?? 0) > 0)
})
