import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApiProblem } from '../../client/api-problem.ts'
import { ConnectionFailed } from '../../client/connection-failed.ts'
import { BROKEN, closeFor, closes, parseClose } from '../../core/console/close.ts'
import { statusOfClose, statusOfLoss, statusOfRefusal } from './status.ts'
import type { CloseCode } from '../../core/console/close.ts'

test('a lost connection is explained while it is made again, whether it was closed, broke or was refused', () => {
  assert.deepEqual(statusOfLoss(closeFor('daemon_stops')), {
    kind: 'away',
    because: 'The daemon stops; the VM goes on',
  })
  assert.deepEqual(statusOfLoss(BROKEN), { kind: 'away', because: 'The connection broke' })
  assert.deepEqual(statusOfLoss(new ConnectionFailed('late', 'the daemon did not answer in time')), {
    kind: 'away',
    because: 'The daemon did not answer in time',
  })
  assert.deepEqual(statusOfLoss(problem), { kind: 'away', because: 'Starting up' })
})

test('a page that was slow is not away', () => {
  assert.deepEqual(statusOfLoss(closeFor('viewer_behind')), { kind: 'behind' })
})

test('every end is explained in words', () => {
  for (const code of Object.keys(closes) as CloseCode[])
    assert.deepEqual(statusOfClose(closeFor(code)), { kind: 'ended', words: closes[code].title })
  assert.deepEqual(statusOfClose(parseClose(1000, 'shell_ended: exit status 3')), {
    kind: 'ended',
    words: 'The shell has ended: exit status 3',
  })
})

test('a code that the page does not know is shown as it is', () => {
  assert.deepEqual(statusOfClose(parseClose(4000, 'later_code: in words')), {
    kind: 'ended',
    words: 'later_code: in words',
  })
})

test('a refusal is shown with its detail; an error of another kind is a bug', () => {
  assert.deepEqual(statusOfRefusal(problem), { kind: 'refused', title: 'Starting up', detail: 'wait' })
  assert.throws(() => statusOfRefusal(new TypeError('no')), TypeError)
})

const problem = new ApiProblem({
  ...{ type: '', title: 'Starting up', status: 503, code: 'starting_up', detail: 'wait', retryable: true },
  request_id: 'req-1',
})
