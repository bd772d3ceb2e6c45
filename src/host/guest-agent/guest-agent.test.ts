import assert from 'node:assert/strict'
import { test } from 'node:test'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { limits } from '../../config/limits.ts'
import { AgentAnswers, askAgent } from './guest-agent.ts'
import { scriptedAgent, synced } from '../../../test/fakes/scripted-agent.ts'
import type { TestContext } from 'node:test'
import type { AgentReading } from './guest-agent.ts'

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

const never = new AbortController().signal
const ping = () => ({ name: 'guest-ping' })

test('a command is sent to an agent that has shown that it listens, and its result is returned', async (t) => {
  const { path, heard } = await scriptedAgent(t, (request) => {
    const there = synced(request)
    // The rest of an answer to an earlier client comes first.
    return there === undefined ? '{"return": {"a": 1}}\n' : `{"return": 7}\n{"error": {}}\n${there}`
  })
  const command = () => ({ name: 'guest-set-time', args: '{"time":1893456000123000000}' })
  assert.deepEqual(await askAgent({ path }, command, never), { kind: 'returned', value: { a: 1 } })
  assert.match(heard[0] ?? '', /^\xff\{"execute":"guest-sync-delimited","arguments":\{"id":\d+\}\}$/)
  assert.deepEqual(heard.slice(1), ['{"execute":"guest-set-time","arguments":{"time":1893456000123000000}}'])
})

test('a refusal, an end in the middle and a missing guest give different answers', async (t) => {
  const refusing = await scriptedAgent(t, (request) => synced(request) ?? '{"error": {"class": "x"}}\n')
  assert.deepEqual(await askAgent({ path: refusing.path }, ping, never), { kind: 'refused' })
  const none = '{"error": {"class": "CommandNotFound", "desc": "it is disabled"}}\n'
  const unable = await scriptedAgent(t, (request) => synced(request) ?? none)
  assert.deepEqual(await askAgent({ path: unable.path }, ping, never), { kind: 'unsupported' })
  const leaving = await scriptedAgent(t, (request, socket) => {
    const there = synced(request)
    if (there === undefined) socket.end()
    return there ?? ''
  })
  assert.deepEqual(await askAgent({ path: leaving.path }, ping, never), { kind: 'unknown' })
  assert.deepEqual(await askAgent({ path: join(leaving.path, '..', 'none') }, ping, never), {
    kind: 'absent',
  })
})

test('if no agent answers, nothing is sent, and the wait ends with the abort', async (t) => {
  const aborting = new AbortController()
  const { path, heard } = await scriptedAgent(t, () => {
    aborting.abort()
    return ''
  })
  assert.deepEqual(await askAgent({ path }, ping, aborting.signal), { kind: 'silent' })
  assert.equal(heard.length, 1)
})

test('an agent that sends without end is given up', async (t) => {
  const { path, heard } = await scriptedAgent(t, () => 'x'.repeat(limits.guestAgentBytesMax + 1))
  assert.deepEqual(await askAgent({ path }, ping, never), { kind: 'silent' })
  assert.equal(heard.length, 1)
})

/** A guest that sends one text without end to each client, as fast as the socket takes it. */
async function floodingAgent(
  t: TestContext,
  text: string,
): Promise<{ path: string; taken: () => number; closed: Promise<unknown> }> {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-'))
  const path = join(directory, 'agent.sock')
  const closed = Promise.withResolvers<unknown>()
  let taken = 0
  const server = createServer((socket) => {
    const sendMore = (): void =>
      socket.write(text, 'latin1', (error) => {
        if (error) return
        taken += text.length
        setImmediate(sendMore)
      }) as unknown as void
    socket.on('error', () => {})
    socket.on('close', closed.resolve)
    sendMore()
  }).listen(path)
  await once(server, 'listening')
  t.after(() => {
    server.close()
    rmSync(directory, { recursive: true })
  })
  return { path, taken: () => taken, closed: closed.promise }
}

/**
 * The size of the buffers of a Unix socket and of the streams at both of its ends (net.core.wmem_max, and Node's high
 * water marks).
 */
const BUFFERED_BYTES_MAX = 1024 * 1024

for (const [what, text] of [
  ['empty lines', '\n'.repeat(65_536)],
  ['short lines', 'x\n'.repeat(32_768)],
  ['lines with a sentinel', '\xff1\n'.repeat(20_000)],
  ['a line without an end', 'x'.repeat(65_536)],
  ['deep JSON', `\xff${'['.repeat(65_536)}`],
] as const) {
  test(
    `an agent that floods with ${what} is given up at once, and its socket closed`,
    { timeout: 30_000 },
    async (t) => {
      const { path, taken, closed } = await floodingAgent(t, text)
      assert.deepEqual(await askAgent({ path }, ping, never), { kind: 'silent' })
      await closed
      assert.ok(taken() <= limits.guestAgentBytesMax + BUFFERED_BYTES_MAX, `it was rid of ${taken()} bytes`)
    },
  )
}
