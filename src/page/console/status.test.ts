import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApiProblem } from '../../client/api-problem.ts'
import { ConnectionFailed } from '../../client/connection-failed.ts'
import { BROKEN, closeFor, closes, parseClose } from '../../core/console/close.ts'
import {
  noticeOf,
  shortWords,
  statusOfClose,
  statusOfLoss,
  statusOfRefusal,
  statusWords,
  takesInput,
} from './status.ts'
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

test('what is typed while the page draws goes to the guest, and at no other pause', () => {
  assert.ok(takesInput({ kind: 'attached' }))
  assert.ok(takesInput(statusOfLoss(closeFor('viewer_behind'))))
  for (const status of [statusOfLoss(BROKEN), statusOfClose(BROKEN), { kind: 'waiting' } as const])
    assert.ok(!takesInput(status), status.kind)
})

test('a VM without a session is not said to be stopped: it may be on its way from another host', () => {
  assert.equal(
    statusWords({ kind: 'waiting' }),
    'The VM does not run on this host. Waiting for its next start here',
  )
  assert.equal(shortWords.waiting, 'not running here')
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
  assert.deepEqual(statusOfRefusal(problem), {
    kind: 'refused',
    title: 'Starting up',
    detail: 'wait',
    code: 'starting_up',
  })
  assert.throws(() => statusOfRefusal(new TypeError('no')), TypeError)
})

test('a VM that is not there is said in one sentence, in the place of a terminal with nothing in it', () => {
  const status = {
    kind: 'refused',
    code: 'not_found',
    title: 'There is no such resource',
    detail: 'there is no VM web-1 on this host',
  } as const
  assert.equal(statusWords(status), 'There is no VM web-1 on this host')
  assert.equal(noticeOf(status, false)?.title, 'There is no VM web-1 on this host')
  assert.match(noticeOf(status, false)?.words ?? '', /deleted/)
  // What a guest said before stays in sight.
  assert.equal(noticeOf(status, true), undefined)
  assert.equal(noticeOf({ kind: 'away', because: 'x' }, false), undefined)
})

const problem = new ApiProblem({
  ...{ type: '', title: 'Starting up', status: 503, code: 'starting_up', detail: 'wait', retryable: true },
  request_id: 'req-1',
})
