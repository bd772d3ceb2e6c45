import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { reconcileStage } from '../../../test/reconcile-stage.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'

const OTHER = 'web-2' as VmId

/** Two VMs that run, and scrapes of their host. */
async function gapsStage(t: TestContext) {
  const stage = await reconcileStage(t)
  stage.create()
  stage.create({ network: { ipv4Address: '192.0.2.77' } }, OTHER)
  await stage.idle()
  const { host, clock, metrics, turns, lines } = stage
  // The first scrape is the first look at the host.
  await metrics().scrape()
  lines.splice(0)
  return {
    host,
    turns,
    /** Takes a scrape. */
    scrape: async (): Promise<void> => {
      clock.advance(limits.metricsAgeMsMax)
      await metrics().scrape()
    },
    /** Takes a scrape that waits for the host as long as a scrape may. */
    longScrape: async (): Promise<void> => {
      clock.advance(limits.metricsAgeMsMax)
      const text = metrics().scrape()
      await turns()
      clock.advance(limits.metricsLookMs)
      await text
    },
    /** Returns what the log says of figures that are absent, and removes it from the log. */
    said: (): readonly unknown[] =>
      lines
        .splice(0)
        .filter(({ message }) => message === 'metrics not measured')
        .map(({ level, collector, vm_id, error }) => [level, collector, vm_id, error]),
    failNetwork: (code: 'network_failed' | 'tap_name_taken' = 'network_failed') =>
      host.taps.failNext('counters', new HostFault(code, 'no counters')),
  }
}

test('the log says once why traffic is absent, with the first VM, and once more when it had come back', async (t) => {
  const { scrape, said, failNetwork } = await gapsStage(t)
  const line = ['warn', 'vm_network', 'web-1', 'no counters']
  failNetwork()
  failNetwork()
  await scrape()
  assert.deepEqual(said(), [line])
  failNetwork()
  await scrape()
  assert.deepEqual(said(), [], 'the same cause')
  failNetwork('tap_name_taken')
  await scrape()
  assert.deepEqual(said(), [line], 'another cause')
  await scrape()
  failNetwork()
  await scrape()
  assert.deepEqual(said(), [line], 'it had been known')
})

test('the log says why the disk counters of a VM are absent', async (t) => {
  const { scrape, said, host } = await gapsStage(t)
  host.monitor.failNext('diskCounters', new HostFault('monitor_missing', 'no answer to query-blockstats'))
  await scrape()
  assert.deepEqual(said(), [['warn', 'vm_disk', 'web-1', 'no answer to query-blockstats']])
})

test('the log names the VM whose monitor does not answer', async (t) => {
  const { scrape, longScrape, said, host, turns } = await gapsStage(t)
  const release = host.monitor.holdNext('diskCounters')
  await longScrape()
  assert.deepEqual(said(), [['warn', 'vm_disk', undefined, 'no answer within 4 s']])
  await scrape()
  assert.deepEqual(said(), [['warn', 'vm_disk', 'web-1', 'its monitor has not answered an earlier question']])
  await scrape()
  release()
  await turns()
  await scrape()
  assert.deepEqual(said(), [])
})

test('the log says once that a part of the host does not answer in time, and what it answers then', async (t) => {
  const { scrape, longScrape, said, host, turns } = await gapsStage(t)
  const hang = async (): Promise<void> => {
    const release = host.staging.holdNext('list')
    await longScrape()
    await scrape()
    release()
    await turns()
  }
  const late = ['warn', 'staging', undefined, 'no answer within 4 s']
  await hang()
  assert.deepEqual(said(), [late])
  await hang()
  assert.deepEqual(said(), [], 'an answer that comes too late changes nothing')
  await scrape()
  await hang()
  assert.deepEqual(said(), [late])
  host.staging.failNext('list', new HostFault('storage_inspection_failed', 'the pool is gone'))
  await scrape()
  assert.deepEqual(said(), [['warn', 'staging', undefined, 'the pool is gone']])
})
