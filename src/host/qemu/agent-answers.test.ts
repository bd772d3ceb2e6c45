import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { AgentAnswers } from './agent-answers.ts'
import type { AgentReading } from './agent-answers.ts'

const ID = 4711
const CHUNK_BYTES = 65_536
const SYNCED = `\xff{"return": ${ID}}\n`

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1')

/** Feeds one chunk repeatedly, until the answers accept nothing further. */
function flood(answers: AgentAnswers, text: string): AgentReading {
  const chunk = bytes(text)
  let reading: AgentReading = 'more'
  while (reading === 'more') reading = answers.take(chunk)
  return reading
}

for (const [what, unit, linesMax] of [
  ['empty lines', '\n', 0],
  ['short lines', 'x\n', 0],
  ['lines with a sentinel', '\xff1\n', limits.guestAgentLinesMax],
  ['values of another question', '\xff{"return":1}\n', limits.guestAgentLinesMax],
  ['a long line', 'x', 0],
  ['deep JSON', '\xff[[[[', 0],
] as const) {
  test(`a flood of ${what} is given up after bounded bytes and lines`, () => {
    const answers = new AgentAnswers(ID)
    assert.equal(flood(answers, unit.repeat(CHUNK_BYTES / unit.length)), 'excess')
    assert.ok(answers.bytes <= limits.guestAgentBytesMax + CHUNK_BYTES, `${answers.bytes} bytes`)
    assert.ok(answers.lines <= linesMax, `${answers.lines} lines`)
  })
}

test('an agent that answers and then floods is given up as soon as one line is too long', () => {
  const answers = new AgentAnswers(ID)
  assert.equal(answers.take(bytes(SYNCED)), 'synced')
  assert.equal(flood(answers, 'x'.repeat(limits.guestAgentLineBytesMax)), 'excess')
  assert.ok(answers.bytes <= SYNCED.length + 2 * limits.guestAgentLineBytesMax, `${answers.bytes} bytes`)
})

test('an answer may come in pieces, and after answers to earlier questions', () => {
  const answers = new AgentAnswers(ID)
  const said = bytes(`{"return": 1}\n\xff{"ret\xff{"return": 2}\n${SYNCED}`)
  const readings = Array.from(said, (byte) => answers.take(Buffer.of(byte)))
  assert.deepEqual(
    readings.filter((reading) => reading !== 'more'),
    ['synced'],
  )
  assert.equal(answers.take(bytes('{"return": ')), 'more')
  assert.deepEqual(answers.take(bytes('{"a": 1}}\n')), { kind: 'returned', value: { a: 1 } })
})

test('an answer that arrives together with the synchronisation is read too', () => {
  const answers = new AgentAnswers(ID)
  assert.equal(answers.take(bytes(`${SYNCED}{"error": {"class": "CommandNotFound"}}\n`)), 'synced')
  assert.deepEqual(answers.next(), { kind: 'unsupported' })
})
