import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Places } from './places.ts'

const [web, other] = ['web-1', 'web-2']

test('each owner has a bounded number of places', () => {
  const places = new Places<string>(2)
  assert.ok(places.take(web) && places.take(web))
  assert.equal(places.take(web), undefined)
  assert.ok(places.take(other))
})

test('a place that is given back can be taken again, and is given back once', () => {
  const places = new Places<string>(1)
  const release = places.take(web)
  release?.()
  release?.()
  assert.equal(places.taken(web), 0)
  assert.ok(places.take(web))
  release?.()
  assert.equal(places.take(web), undefined)
})
