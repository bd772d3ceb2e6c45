import assert from 'node:assert/strict'
import { test } from 'node:test'
import { titleOf } from './title.ts'

const live = { kind: 'live' } as const
const away = { kind: 'away', because: 'The daemon did not answer in time' } as const

test('the title has the host, and how many VMs have an error', () => {
  assert.equal(titleOf({ status: live, host: 'host-1', failing: 0 }), 'host-1 · vmhostd')
  assert.equal(titleOf({ status: live, host: 'host-1', failing: 2 }), 'host-1 · 2 with an error · vmhostd')
  assert.equal(titleOf({ status: { kind: 'loading' }, host: undefined, failing: 0 }), 'vmhostd')
})

test('the title says that the daemon does not answer, and no number that may be out of date', () => {
  assert.equal(titleOf({ status: away, host: 'host-1', failing: 2 }), 'host-1 · no answer · vmhostd')
  assert.equal(titleOf({ status: away, host: undefined, failing: 0 }), 'no answer · vmhostd')
})
