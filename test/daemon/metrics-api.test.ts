/** Metrics over real TLS: who may read them, and what requests leave in them. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { metrics } from '../../src/core/metrics/catalogue.ts'
import { samplesIn, valueIn } from '../metrics-text.ts'
import { makePki, startControllerHost } from './support/controller-host.ts'
import { readWith, startMetricsHost } from './support/metrics-host.ts'
import { lintMetrics } from './support/promtool.ts'
import type { ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

async function scrape(host: ControllerHost): Promise<string> {
  host.clock.advance(limits.metricsAgeMsMax)
  const answer = await host.call({ path: '/metrics' })
  assert.equal(answer.status, 200)
  assert.equal(answer.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
  return answer.text
}

test('the controller reads the metrics, also while the daemon is starting', async (t) => {
  const host = await startControllerHost(t, pki)
  host.waitingFor = ['console adoption']
  host.storeIsOpen = false
  const text = await scrape(host)
  assert.equal(valueIn(text, 'vmhostd_ready'), 0)
  assert.equal(valueIn(text, 'vmhostd_build_info', { version: '1.2.3' }), 1)
  host.waitingFor = []
  assert.equal(valueIn(await scrape(host), 'vmhostd_ready'), 1)
})

test('the end of each certificate is known', async (t) => {
  const host = await startControllerHost(t, pki)
  const text = await scrape(host)
  const ends = samplesIn(text).filter(({ name }) => name.startsWith('vmhostd_certificate_'))
  assert.deepEqual(
    ends.map(({ labels }) => labels['certificate']),
    ['authority', 'controller', 'server'],
  )
  const inADay = Date.now() / 1000 + 86_400
  for (const { value } of ends) assert.ok(value > inADay)
})

test('requests are counted by route, and nothing that a client chose is a label', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const path of ['/v1/vms/secret-1', '/v1/vms/secret-2', '/secret-3', '/v1/vms/secret-4/plan'])
    await host.call({ path })
  await host.call({ path: '/secret-5', method: 'PROPFIND' })
  await host.call({ path: '/healthz', method: 'DELETE' })
  const text = await scrape(host)
  const count = (method: string, route: string, status: string): number | undefined =>
    valueIn(text, 'vmhostd_api_request_duration_seconds_count', {
      listener: 'controller',
      method,
      route,
      status,
    })
  assert.equal(count('GET', '/v1/vms/:id', '4xx'), 2)
  assert.equal(count('GET', '/v1/vms/:id/plan', '4xx'), 1)
  assert.equal(count('any', 'none', '4xx'), 3)
  assert.doesNotMatch(text, /secret|PROPFIND/)
})

test('requests have at most the series of their bound for each route that was called', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const path of ['/v1/vms', '/v1/vms?limit=0', '/v1/vms/a', '/v1/vms/b', '/nothing', '/nothing-else'])
    await host.call({ path })
  host.storeIsOpen = false
  await host.call({ path: '/v1/vms' })
  const { name, bound } = metrics.requests
  const each = new Map<string, string[]>()
  for (const { labels } of samplesIn(await scrape(host)).filter(
    (sample) => sample.name === `${name}_count`,
  )) {
    const { listener, method, route, status = '' } = labels
    const key = `${listener} ${method} ${route}`
    each.set(key, [...(each.get(key) ?? []), status])
  }
  assert.deepEqual(Object.fromEntries(each), {
    'controller GET /v1/vms': ['2xx', '4xx', '5xx'],
    'controller GET /v1/vms/:id': ['4xx'],
    'controller any none': ['4xx'],
  })
  assert.ok('perRoute' in bound)
  for (const statuses of each.values()) assert.ok(statuses.length <= bound.perRoute)
})

test('the metrics are as Prometheus wants them', async (t) => {
  const host = await startControllerHost(t, pki)
  await host.call({ path: '/v1/vms' })
  await lintMetrics(t, await scrape(host))
})

test('the listener for metrics admits the names of the configuration alone, and only to read', async (t) => {
  const host = await startMetricsHost(t, pki, ['prometheus', 'backup-prometheus'])
  for (const name of ['prometheus', 'backup-prometheus']) {
    const answer = await readWith(host, pki, name, '/metrics')
    assert.equal(answer.status, 200, name)
    assert.equal(answer.text, host.text)
  }
  for (const name of ['vmhost-controller', 'host-2', 'Prometheus']) {
    const answer = await readWith(host, pki, name, '/metrics')
    assert.deepEqual([answer.status, answer.json.code], [403, 'forbidden'], name)
  }
  assert.equal((await readWith(host, pki, 'prometheus', '/healthz')).status, 200)
  for (const path of ['/v1/vms', '/v1/sync', '/v1/vms/web-1/console', '/docs'])
    assert.equal((await readWith(host, pki, 'prometheus', path)).status, 404, path)
  assert.equal((await readWith(host, pki, 'prometheus', '/metrics', 'POST')).status, 405)
  assert.deepEqual(host.seen.map(({ route }) => route).filter((route) => route === '/metrics').length, 5)
  const readers = host.clients.list().map(({ commonName, role }) => `${commonName}: ${role}`)
  assert.deepEqual([...new Set(readers)], ['backup-prometheus: metrics', 'prometheus: metrics'])
})

test('the document of the listener for metrics has exactly its routes', async (t) => {
  const host = await startMetricsHost(t, pki, ['prometheus'])
  const { json } = await readWith(host, pki, 'prometheus', '/docs/metrics.json')
  assert.deepEqual(Object.keys(json.paths).toSorted(), [
    '/docs/errors',
    '/docs/metrics.json',
    '/healthz',
    '/metrics',
    '/readyz',
  ])
})
