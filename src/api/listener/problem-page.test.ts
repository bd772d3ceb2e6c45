import assert from 'node:assert/strict'
import { test } from 'node:test'
import { problemPage } from './problem-page.ts'
import type { Problem } from '../wire/problem.ts'

const pages = { prefix: '/ui', home: '/ui/', homeWords: 'Start page' }
const problem: Problem = {
  ...{ type: '/docs/errors#x', title: 'The host is full', status: 503, code: 'other', detail: 'no room' },
  ...{ retryable: true, request_id: 'req-1' },
}

test('a problem is a page with a sentence and a way on', () => {
  const page = problemPage(problem, pages)
  for (const part of [
    '<h1>The host is full</h1>',
    '<p>No room.</p>',
    '<a href="/ui/">Start page</a>',
    'req-1',
  ])
    assert.ok(page.includes(part), part)
})

test('a reader whose certificate opens no page at all gets no link to another one', () => {
  const page = problemPage({ ...problem, status: 403, code: 'forbidden' }, pages)
  assert.match(page, /This host does not know your certificate/)
  assert.doesNotMatch(page, /<a /)
})

test('a name that no VM can have is explained without the words of the API', () => {
  const errors = [{ pointer: '/id', code: 'malformed', detail: 'must be short' }]
  const page = problemPage({ ...problem, code: 'invalid_request', detail: 'the path …', errors }, pages)
  assert.match(page, /<p>The name in the address must be short\.<\/p>/)
  assert.doesNotMatch(page, /\/id|the path/)
})

test('no text of a request becomes markup', () => {
  const page = problemPage({ ...problem, detail: '<img src="x">' }, pages)
  assert.match(page, /&lt;img src=&quot;x&quot;&gt;/)
})
