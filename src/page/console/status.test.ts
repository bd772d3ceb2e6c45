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
  assert.ok(takesInput({ kind: 'attached', guest: 'running' }))
  assert.ok(takesInput(statusOfLoss(closeFor('viewer_behind'))))
  for (const status of [statusOfLoss(BROKEN), statusOfClose(BROKEN), { kind: 'waiting' } as const])
    assert.ok(!takesInput(status), status.kind)
})

test('a VM without a session is not said to be stopped: it may be on its way from another host', () => {
  assert.equal(
    statusWords({ kind: 'waiting' }),
    'The VM does not run on this host. Waiting for its next start here',
  )
  assert.equal(shortWords({ kind: 'waiting' }), 'not running here')
})

test('a guest that rests is said to rest, and what is typed waits for it', () => {
  const [sleeps, pauses] = [
    { kind: 'attached', guest: 'sleeping' },
    { kind: 'attached', guest: 'paused' },
  ] as const
  assert.equal(statusWords(sleeps), 'The VM sleeps. Typed input waits')
  assert.equal(statusWords(pauses), 'The VM is paused. Typed input waits')
  assert.deepEqual([shortWords(sleeps), shortWords(pauses)], ['sleeping', 'paused'])
  assert.ok(takesInput(sleeps))
})

test('every end is explained in words', () => {
  for (const code of Object.keys(closes) as CloseCode[])
    assert.deepEqual(statusOfClose(closeFor(code)), { kind: 'ended', code, words: closes[code].title })
  assert.deepEqual(statusOfClose(parseClose(1000, 'shell_ended: exit status 3')), {
    kind: 'ended',
    code: 'shell_ended',
    words: 'The shell has ended: exit status 3',
  })
})

test('a code that the page does not know is shown as it is', () => {
  assert.deepEqual(statusOfClose(parseClose(4000, 'later_code: in words')), {
    kind: 'ended',
    code: 'later_code',
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

test('a shell that cannot be had is said in the place of the empty terminal, with a next move', () => {
  for (const [code, hint] of [
    ['ssh_key_refused', /name beside SSH/],
    ['ssh_refused', /serial console/],
    ['ssh_timed_out', /boots/],
    ['ssh_no_route', /serial console/],
    ['ssh_no_address', /serial console/],
  ] as const) {
    const notice = noticeOf(statusOfClose(closeFor(code)), false)
    assert.equal(notice?.title, closes[code].title)
    assert.match(notice?.words ?? '', hint, code)
  }
  assert.match(noticeOf(statusOfClose(closeFor('ssh_failed')), false)?.words ?? '', /Connect again/)
  // A shell that was there stays in sight.
  assert.equal(noticeOf(statusOfClose(closeFor('shell_ended')), true), undefined)
})

test('a part of the address that is not right is not tried again as it is', () => {
  const hintOf = (pointer: string): string => {
    const errors = [{ pointer, code: 'malformed' as const, detail: 'must be …' }]
    const refusal = new ApiProblem({ ...problem.problem, code: 'invalid_request', retryable: false, errors })
    return noticeOf(statusOfRefusal(refusal), false)?.words ?? ''
  }
  assert.equal(hintOf('/user'), 'Change the name beside SSH.')
  assert.equal(hintOf('/accept_host_key'), 'Correct the address of the page.')
})

const problem = new ApiProblem({
  ...{ type: '', title: 'Starting up', status: 503, code: 'starting_up', detail: 'wait', retryable: true },
  request_id: 'req-1',
})
