import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Places } from './console-viewer.ts'
import type { VmId } from '../ids.ts'

const [web, other] = ['web-1' as VmId, 'web-2' as VmId]

test('each VM has a bounded number of places', () => {
  const places = new Places(2)
  assert.ok(places.take(web) && places.take(web))
  assert.equal(places.take(web), undefined)
  assert.ok(places.take(other))
})

test('a place that is given back can be taken again, and is given back once', () => {
  const places = new Places(1)
  const release = places.take(web)
  release?.()
  release?.()
  assert.equal(places.taken(web), 0)
  assert.ok(places.take(web))
  release?.()
  assert.equal(places.take(web), undefined)
})
