import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planReplay } from './replay.ts'

const session = { id: 'aaaaaaaaaaaaaaaa', start: 100, end: 200 }
const other = 'bbbbbbbbbbbbbbbb'

test('a new viewer gets all that is kept', () => {
  assert.deepEqual(planReplay(session, undefined), { from: 100, lostBytes: 0 })
})

test('a viewer that comes back goes on where it had stopped', () => {
  assert.deepEqual(planReplay(session, { cursor: 150, session: session.id }), { from: 150, lostBytes: 0 })
  assert.deepEqual(planReplay(session, { cursor: 200 }), { from: 200, lostBytes: 0 })
})

test('output that is no longer kept is lost', () => {
  assert.deepEqual(planReplay(session, { cursor: 30, session: session.id }), { from: 100, lostBytes: 70 })
})

test('a cursor of another session, or one not reached yet, says nothing of this one', () => {
  assert.deepEqual(planReplay(session, { cursor: 30, session: other }), { from: 100, lostBytes: 0 })
  assert.deepEqual(planReplay(session, { cursor: 201, session: session.id }), { from: 100, lostBytes: 0 })
})
