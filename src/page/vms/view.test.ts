import assert from 'node:assert/strict'
import { test } from 'node:test'
import { vmOnWire } from '../../../test/vm-on-wire.ts'
import { countsOf, countWords, searchOf, sortedBy, viewOf, visible } from './view.ts'

const memory = (mib: number) => ({
  compute: { cpu_millicores: 1000, memory_mib: mib, sleep_after_idle_seconds: 0 },
})
const vms = [
  vmOnWire('web-10', { labels: { env: 'prod' }, desired: memory(512) }),
  vmOnWire('web-2', { observed: { error: 'network.inspect: no answer' }, desired: memory(1024) }),
  vmOnWire('db', {
    labels: { env: 'test' },
    observed: { state: 'sleeping', last_traffic_at: '2030-01-01T12:00:00.000Z' },
    desired: memory(256),
  }),
  vmOnWire('queue', {
    observed: { state: 'failed', last_traffic_at: '2030-01-01T11:00:00.000Z' },
    desired: memory(512),
  }),
]
const shown = (search: string): string[] => visible(vms, viewOf(search)).map(({ id }) => id)

test('a view is kept in the address, without what is so by default', () => {
  for (const search of ['', '?q=web+1', '?state=error&sort=memory&order=desc', '?q=%26&state=sleeping'])
    assert.equal(searchOf(viewOf(search)), search)
  assert.deepEqual(viewOf('?state=lost&sort=size&order=up&more=1'), viewOf(''))
})

test('names are sorted as people read them', () => {
  assert.deepEqual(shown(''), ['db', 'queue', 'web-2', 'web-10'])
  assert.deepEqual(shown('?order=desc'), ['web-10', 'web-2', 'queue', 'db'])
})

test('the other orders fall back to the name', () => {
  assert.deepEqual(shown('?sort=state'), ['queue', 'web-2', 'web-10', 'db'])
  assert.deepEqual(shown('?sort=memory&order=desc'), ['web-2', 'queue', 'web-10', 'db'])
  assert.deepEqual(shown('?sort=traffic&order=desc'), ['db', 'queue', 'web-2', 'web-10'])
})

test('each word must be in the name, a label, an address, the state or the error', () => {
  assert.deepEqual(shown('?q=WEB'), ['web-2', 'web-10'])
  assert.deepEqual(shown('?q=web+env%3Dprod'), ['web-10'])
  assert.deepEqual(shown('?q=no+answer'), ['web-2'])
  assert.deepEqual(shown('?q=192.0.2.10&state=sleeping'), ['db'])
  assert.deepEqual(shown('?q=nothing'), [])
})

test('errors are a choice of their own: a VM that failed has one', () => {
  assert.deepEqual(shown('?state=error'), ['queue', 'web-2'])
  assert.deepEqual(shown('?state=running'), ['web-2', 'web-10'])
})

test('each choice that has VMs is counted, and the chosen one always', () => {
  assert.deepEqual(countsOf(vms, 'paused'), [
    { choice: 'all', count: 4 },
    { choice: 'error', count: 2 },
    { choice: 'failed', count: 1 },
    { choice: 'running', count: 2 },
    { choice: 'paused', count: 0 },
    { choice: 'sleeping', count: 1 },
  ])
  assert.deepEqual(countsOf([], 'all'), [{ choice: 'all', count: 0 }])
})

test('a column that is chosen again turns its order', () => {
  const view = viewOf('?q=web')
  const once = sortedBy(view, 'memory')
  assert.equal(searchOf(once), '?q=web&sort=memory&order=desc')
  assert.equal(searchOf(sortedBy(once, 'memory')), '?q=web&sort=memory')
  assert.equal(searchOf(sortedBy(once, 'name')), '?q=web')
})

test('the number of VMs is said in words', () => {
  assert.equal(countWords(1, 1), '1 VM')
  assert.equal(countWords(1000, 1000), '1,000 VMs')
  assert.equal(countWords(12, 1000), '12 of 1,000 VMs')
  assert.equal(countWords(0, 1), '0 of 1 VM')
})
