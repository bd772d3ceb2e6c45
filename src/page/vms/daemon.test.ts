import assert from 'node:assert/strict'
import { test } from 'node:test'
import { beginAnswer, cutAnswer, servePage } from '../../../test/page-server.ts'
import { UnexpectedAnswer } from '../../client/api-problem.ts'
import { ConnectionFailed } from '../../client/connection-failed.ts'
import { daemon } from './daemon.ts'

const never = new AbortController().signal

test('an answer that is cut off means that the host is away, not that another server answers', async (t) => {
  const { answer, cut } = cutAnswer()
  await servePage(t, answer, cut)
  await assert.rejects(daemon.sync(never), ConnectionFailed)
})

test('so does an answer whose end does not come in time', async (t) => {
  const bound = new AbortController()
  t.mock.method(AbortSignal, 'timeout', () => bound.signal)
  await servePage(t, beginAnswer, () => bound.abort(new DOMException('late', 'TimeoutError')))
  await assert.rejects(daemon.sync(never), ConnectionFailed)
})

test('a page that gives up an answer gets its own reason', async (t) => {
  const given = new AbortController()
  const reason = new Error('the page is hidden')
  await servePage(t, beginAnswer, () => given.abort(reason))
  await assert.rejects(daemon.sync(given.signal), reason)
})

test('an answer that is not JSON is of another server', async (t) => {
  await servePage(t, (response) => response.end('<p>Welcome'))
  await assert.rejects(daemon.sync(never), UnexpectedAnswer)
})
