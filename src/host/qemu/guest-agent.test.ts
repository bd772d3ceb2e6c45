import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { scriptedAgent, synced } from '../../../test/fakes/scripted-agent.ts'
import { limits } from '../../config/limits.ts'
import { askAgent } from './guest-agent.ts'

const never = new AbortController().signal
const ping = () => ({ name: 'guest-ping' })

test('an agent is asked after it has shown that it listens, and what it returns is told', async (t) => {
  const { path, heard } = await scriptedAgent(t, (request) => {
    const there = synced(request)
    // What it had still to say to someone else comes first.
    return there === undefined ? '{"return": {"a": 1}}\n' : `{"return": 7}\n{"error": {}}\n${there}`
  })
  const command = () => ({ name: 'guest-set-time', args: '{"time":1893456000123000000}' })
  assert.deepEqual(await askAgent(path, command, never), { kind: 'returned', value: { a: 1 } })
  assert.match(heard[0] ?? '', /^\xff\{"execute":"guest-sync-delimited","arguments":\{"id":\d+\}\}$/)
  assert.deepEqual(heard.slice(1), ['{"execute":"guest-set-time","arguments":{"time":1893456000123000000}}'])
})

test('a refusal, an end in the middle and no guest at all are told apart', async (t) => {
  const refusing = await scriptedAgent(t, (request) => synced(request) ?? '{"error": {"class": "x"}}\n')
  assert.deepEqual(await askAgent(refusing.path, ping, never), { kind: 'refused' })
  const none = '{"error": {"class": "CommandNotFound", "desc": "it is disabled"}}\n'
  const unable = await scriptedAgent(t, (request) => synced(request) ?? none)
  assert.deepEqual(await askAgent(unable.path, ping, never), { kind: 'unsupported' })
  const leaving = await scriptedAgent(t, (request, socket) => {
    const there = synced(request)
    if (there === undefined) socket.end()
    return there ?? ''
  })
  assert.deepEqual(await askAgent(leaving.path, ping, never), { kind: 'unknown' })
  assert.deepEqual(await askAgent(join(leaving.path, '..', 'none'), ping, never), { kind: 'absent' })
})

test('where nobody answers nothing is sent, and the wait ends with the abort', async (t) => {
  const aborting = new AbortController()
  const { path, heard } = await scriptedAgent(t, () => {
    aborting.abort()
    return ''
  })
  assert.deepEqual(await askAgent(path, ping, aborting.signal), { kind: 'silent' })
  assert.equal(heard.length, 1)
})

test('an agent that talks without end is left', async (t) => {
  const { path, heard } = await scriptedAgent(t, () => 'x'.repeat(limits.guestAgentBytesMax + 1))
  assert.deepEqual(await askAgent(path, ping, never), { kind: 'silent' })
  assert.equal(heard.length, 1)
})
