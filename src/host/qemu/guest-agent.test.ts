import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { limits } from '../../config/limits.ts'
import { tellGuestTime } from './guest-agent.ts'

const never = new AbortController().signal
const NOW_MS = Date.parse('2030-01-01T00:00:00.123Z')

type Request = {
  readonly execute: string
  readonly arguments: { readonly id?: number; readonly time?: number }
}
type Agent = { readonly path: string; readonly heard: string[] }

/** An agent that says what `answer` returns to each line. */
async function agentOf(t: TestContext, answer: (request: Request, socket: Socket) => string): Promise<Agent> {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-'))
  const heard: string[] = []
  const server = createServer((socket) => {
    socket.setEncoding('latin1').on('data', (text: string) => {
      for (const line of text.split('\n').filter((part) => part !== '')) {
        heard.push(line)
        socket.write(answer(JSON.parse(line.replace('\xff', '')) as Request, socket), 'latin1')
      }
    })
    socket.on('error', () => {})
  }).listen(join(directory, 'agent.sock'))
  await once(server, 'listening')
  t.after(() => {
    server.close()
    rmSync(directory, { recursive: true })
  })
  return { path: join(directory, 'agent.sock'), heard }
}

const synced = ({ arguments: { id } }: Request): string => `\xff{"return": ${id}}\n`

test('an agent is told the time in nanoseconds, after it has shown that it listens', async (t) => {
  const { path, heard } = await agentOf(t, (request) =>
    // What it had still to say to someone else comes first.
    request.execute === 'guest-sync-delimited'
      ? `{"return": 7}\n{"error": {}}\n${synced(request)}`
      : '{"return": {}}\n',
  )
  assert.equal(await tellGuestTime(path, () => NOW_MS, never), true)
  assert.match(heard[0] ?? '', /^\xff\{"execute":"guest-sync-delimited","arguments":\{"id":\d+\}\}$/)
  assert.deepEqual(heard.slice(1), ['{"execute":"guest-set-time","arguments":{"time":1893456000123000000}}'])
})

test('an agent that may not set the clock, or goes, has not taken the time', async (t) => {
  const refusing = await agentOf(t, (request) =>
    request.execute === 'guest-set-time' ? '{"error": {"class": "CommandDisabled"}}\n' : synced(request),
  )
  assert.equal(await tellGuestTime(refusing.path, () => NOW_MS, never), false)
  const leaving = await agentOf(t, (_, socket) => {
    socket.end()
    return ''
  })
  assert.equal(await tellGuestTime(leaving.path, () => NOW_MS, never), false)
  assert.equal(await tellGuestTime(join(leaving.path, 'none'), () => NOW_MS, never), false)
})

test('where nobody listens the time is not sent, and the wait ends with the abort', async (t) => {
  const aborting = new AbortController()
  const { path, heard } = await agentOf(t, () => {
    aborting.abort()
    return ''
  })
  assert.equal(await tellGuestTime(path, () => NOW_MS, aborting.signal), false)
  assert.equal(heard.length, 1)
})

test('an agent that talks without end is left', async (t) => {
  const { path, heard } = await agentOf(t, () => 'x'.repeat(limits.guestAgentBytesMax + 1))
  assert.equal(await tellGuestTime(path, () => NOW_MS, never), false)
  assert.equal(heard.length, 1)
})
