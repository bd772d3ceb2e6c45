import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgeResumption, resumeFields, sentBy } from './resume.ts'

const MODIFIED = 'Tue, 01 Jan 2030 00:00:00 GMT'
const LATER = 'Tue, 01 Jan 2030 00:00:01 GMT'

test('a source is asked to resume only with a validator that identifies the object for sure', () => {
  const validator = (fields: Record<string, string>): string | undefined =>
    resumeFields(7, sentBy(fields))['if-range']
  assert.equal(validator({ etag: '"a"', 'last-modified': MODIFIED, date: LATER }), '"a"')
  assert.equal(validator({ 'last-modified': MODIFIED, date: LATER }), MODIFIED)
  // The object may have changed again in that second.
  assert.equal(validator({ 'last-modified': MODIFIED, date: MODIFIED }), undefined)
  assert.equal(validator({ 'last-modified': MODIFIED }), undefined)
  assert.equal(validator({ etag: 'W/"a"', 'last-modified': MODIFIED, date: LATER }), undefined)
  assert.equal(validator({ etag: 'a' }), undefined)
  assert.deepEqual(resumeFields(7, {}), { range: 'bytes=7-' })
  assert.deepEqual(sentBy({ 'content-length': '12x' }), {})
})

const sent = { bytes: 10, validator: '"a"' }
const kindOf = (status: number, fields: Record<string, string>, known: object = sent): string => {
  const judged = judgeResumption(status, fields, 4, known)
  return judged.kind === 'refused' ? judged.because : judged.kind
}

test('a part of the same object resumes the download, and gives the length of the whole', () => {
  assert.equal(kindOf(206, { 'content-range': 'bytes 4-9/10', etag: '"a"' }), 'resumed')
  assert.equal(kindOf(206, { 'content-range': 'bytes 4-6/10' }), 'resumed')
  assert.equal(kindOf(206, { 'content-range': 'bytes 4-9/*' }), 'resumed')
  const judged = judgeResumption(206, { 'content-range': 'bytes 4-9/10' }, 4, {})
  assert.deepEqual(judged, { kind: 'resumed', bytes: 10 })
})

test('the whole object starts the download again, and a part of another object is refused', () => {
  assert.equal(kindOf(200, {}), 'restarted')
  assert.equal(kindOf(206, { 'content-range': 'bytes 4-9/11' }), 'changed')
  assert.equal(kindOf(206, { 'content-range': 'bytes 4-9/10', etag: '"b"' }), 'changed')
  const dated = { bytes: 10, validator: MODIFIED }
  assert.equal(kindOf(206, { 'content-range': 'bytes 4-9/10', 'last-modified': LATER }, dated), 'changed')
})

test('nonsense is refused', () => {
  for (const range of ['bytes 3-9/10', 'bytes 4-3/10', 'bytes 4-10/10'])
    assert.equal(kindOf(206, { 'content-range': range }), 'sends another part than it was asked for')
  for (const range of ['', '4-9/10', 'bytes */10', 'bytes 4-9', 'items 4-9/10'])
    assert.match(kindOf(206, { 'content-range': range }), /without saying/)
  assert.equal(kindOf(416, { 'content-range': 'bytes */10' }), 'answered 416')
  assert.equal(kindOf(204, {}), 'answered 204')
})
