import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { limits } from '../../config/limits.ts'
import { parseViewerMessage } from './viewer-message.ts'

const { consoleColsMax, consoleRowsMax } = limits

test('a resize within bounds is accepted, whatever its spelling', () => {
  const cols = fc.integer({ min: 1, max: consoleColsMax })
  const size = fc.record(
    { cols, rows: fc.integer({ min: 1, max: consoleRowsMax }) },
    { noNullPrototype: true },
  )
  fc.assert(
    fc.property(size, fc.constantFrom(0, 2, '\t'), (given, indent) => {
      const text = JSON.stringify({ resize: given }, undefined, indent)
      assert.deepEqual(parseViewerMessage(text), { kind: 'resize', size: given })
    }),
  )
})

test('a request for the position is accepted', () => {
  assert.deepEqual(parseViewerMessage('{"position": {}}'), { kind: 'position' })
})

test('a request to hold output back, or to let it come, is accepted', () => {
  for (const paused of [true, false])
    assert.deepEqual(parseViewerMessage(JSON.stringify({ output: { paused } })), {
      kind: 'output',
      isPaused: paused,
    })
})

test('a text that is far too long is refused, whatever it means', () => {
  const text = (length: number): string => '{"position": {}}'.padEnd(length)
  assert.equal(parseViewerMessage(text(limits.consoleTextCharactersMax)).kind, 'position')
  const refused = parseViewerMessage(text(limits.consoleTextCharactersMax + 1))
  assert.ok(refused.kind === 'error' && refused.code === 'invalid_message')
  assert.match(refused.detail, /^the message has more than 1024 characters: send terminal bytes/)
})

test('a resize out of bounds is refused, with a pointer to the error', () => {
  const bad = fc.oneof(
    fc.integer({ max: 0 }),
    fc.integer({ min: consoleColsMax + 1 }),
    fc.double({ noInteger: true }),
    fc.string(),
    fc.constantFrom(null, true, [], {}),
  )
  fc.assert(
    fc.property(bad, fc.constantFrom('cols', 'rows'), (value, name) => {
      const message = parseViewerMessage(JSON.stringify({ resize: { cols: 80, rows: 24, [name]: value } }))
      assert.ok(message.kind === 'error' && message.code === 'invalid_message')
      assert.ok(message.detail.startsWith(`/resize/${name} must be `), message.detail)
    }),
  )
})

test('every text has a meaning; only the three messages mean something else than an error', () => {
  const texts = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.json(),
    fc.jsonValue().map((value) => JSON.stringify({ position: value })),
    fc.dictionary(fc.string(), fc.jsonValue()).map((value) => JSON.stringify({ resize: value })),
    fc.jsonValue().map((value) => JSON.stringify({ output: { paused: value } })),
    fc.constantFrom(
      '{"__proto__":{}}',
      '{"constructor":{}}',
      '{"resize":{"cols":1,"rows":1,"__proto__":{}}}',
    ),
  )
  fc.assert(
    fc.property(texts, (text) => {
      const message = parseViewerMessage(text)
      if (message.kind === 'position') assert.deepEqual(JSON.parse(text), { position: {} })
      else if (message.kind === 'resize') assert.deepEqual(JSON.parse(text), { resize: message.size })
      else if (message.kind === 'output')
        assert.deepEqual(JSON.parse(text), { output: { paused: message.isPaused } })
      else {
        assert.equal(message.code === 'not_json', !isJson(text))
        assert.doesNotMatch(message.detail, /[\r\n]/)
        assert.ok(message.detail.length < 500)
      }
    }),
    { numRuns: 1000 },
  )
})

test('what was sent is not repeated', () => {
  for (const text of ['CANARY', '{"resize":"CANARY"}', '{"resize":{"cols":"CANARY","rows":1}}', '["CANARY"]'])
    assert.doesNotMatch(JSON.stringify(parseViewerMessage(text)), /CANARY/)
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
