import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SseParser } from './sse-parser.ts'

const STREAM =
  'retry: 2000\nevent: start\nid: 3\ndata: {"after":3}\n\n:\n\n:\nid: 7\n\nid: 8\r\ndata: one\r\ndata:two\r\n\r\nid: 9\ndata: cut'

test('messages are the same, however the stream is cut into pieces', () => {
  for (let bytes = 1; bytes <= STREAM.length; bytes += 1) {
    const parser = new SseParser()
    const messages = []
    for (let at = 0; at < STREAM.length; at += bytes)
      messages.push(...parser.take(STREAM.slice(at, at + bytes)))
    assert.deepEqual(messages, [
      { type: 'start', data: '{"after":3}' },
      { type: 'message', data: 'one\ntwo' },
    ])
    assert.equal(parser.lastId, '8', 'the id of a message that is not complete does not count')
  }
})

test('an id without data brings the reader forward', () => {
  const parser = new SseParser()
  assert.deepEqual(parser.take(':\nid: 7\n\n'), [])
  assert.equal(parser.lastId, '7')
})

test('the lines of a message that does not end count as pending', () => {
  const parser = new SseParser()
  parser.take('data: one\ndata: two\nid: 7')
  assert.equal(parser.pendingCharacters, 'onetwoid: 7'.length)
  parser.take('\n\n')
  assert.equal(parser.pendingCharacters, 0)
})
