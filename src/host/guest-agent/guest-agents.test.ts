import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../../../test/contract/until.ts'
import { scriptedAgent, synced } from '../../../test/fakes/scripted-agent.ts'
import { silentLog } from '../../log/log.ts'
import { GuestAgents } from './guest-agents.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import type { AgentRequest, ScriptedAgent } from '../../../test/fakes/scripted-agent.ts'
import type { GuestAgentsOptions } from './guest-agents.ts'

const id = 'web-1' as VmId
const never = new AbortController().signal
const NOW_MS = Date.parse('2030-01-01T00:00:00.123Z')
const FREEZE = 'guest-fsfreeze-freeze'
const THAW = 'guest-fsfreeze-thaw'
const STATUS = 'guest-fsfreeze-status'

type Script = (request: AgentRequest) => string

async function stage(
  t: TestContext,
  script: Script,
  options: Partial<GuestAgentsOptions> = {},
): Promise<{ agents: GuestAgents; agent: ScriptedAgent }> {
  const agent = await scriptedAgent(t, (request) => synced(request) ?? script(request))
  const agents = new GuestAgents({
    address: () => ({ path: agent.path }),
    listens: async () => true,
    now: () => NOW_MS,
    log: silentLog,
    ...options,
  })
  t.after(() => agents.close())
  return { agents, agent }
}

test('an agent gets the time in nanoseconds', async (t) => {
  const { promise: heard, resolve: hear } = Promise.withResolvers<void>()
  const { agents, agent } = await stage(t, () => {
    hear()
    return '{"return": {}}\n'
  })
  agents.setGuestTime(id)
  await heard
  assert.equal(agent.heard[1], '{"execute":"guest-set-time","arguments":{"time":1893456000123000000}}')
})

test('a guest is frozen when its agent returns how many file systems it froze, and thawed on request', async (t) => {
  const { agents, agent } = await stage(t, () => '{"return": 2}\n')
  assert.equal(await agents.freeze(id, never), 'frozen')
  assert.deepEqual(agent.commands(), [FREEZE])
  assert.equal(await agents.thaw(id, never), true)
  assert.deepEqual(agent.commands(), [FREEZE, THAW])
})

for (const [how, answer] of [
  ['refuses', '{"error": {"class": "GenericError", "desc": "it failed at the second one"}}\n'],
  ['has nothing to freeze', '{"return": 0}\n'],
  ['answers something else than a number', '{"return": {"valueOf": 0, "toString": 0}}\n'],
] as const) {
  test(`a guest whose agent ${how} is not frozen, and nothing in it stays frozen`, async (t) => {
    const { agents, agent } = await stage(t, ({ execute }) =>
      execute === FREEZE ? answer : '{"return": 1}\n',
    )
    assert.equal(await agents.freeze(id, never), 'none')
    assert.deepEqual(agent.commands(), [FREEZE, THAW])
  })
}

test('a freeze that takes too long, or is aborted, is thawed before it counts as failed', async (t) => {
  const aborting = new AbortController()
  const script: Script = ({ execute }) => {
    if (execute !== FREEZE) return '{"return": 1}\n'
    setImmediate(() => aborting.abort())
    return ''
  }
  const aborted = await stage(t, script)
  assert.equal(await aborted.agents.freeze(id, aborting.signal), 'none')
  assert.deepEqual(aborted.agent.commands(), [FREEZE, THAW])
  const late = await stage(t, script, { freezeMs: 1000 })
  assert.equal(await late.agents.freeze(id, never), 'none')
  assert.deepEqual(late.agent.commands(), [FREEZE, THAW])
})

test('an agent has not done what it does not support', async (t) => {
  const none = '{"error": {"class": "CommandNotFound", "desc": "it is disabled"}}\n'
  const { agents, agent } = await stage(t, () => none)
  assert.equal(await agents.freeze(id, never), 'none')
  assert.deepEqual(agent.commands(), [FREEZE])
  assert.equal(await agents.thaw(id, never), true)
})

test(
  'a guest in which no agent listens is sent nothing, and not waited for',
  { timeout: 30_000 },
  async (t) => {
    const patient = { freezeMs: 600_000 }
    const deaf = { ...patient, listens: async () => false }
    const { agents, agent } = await stage(t, () => '{"return": 1}\n', deaf)
    assert.equal(await agents.freeze(id, never), 'none')
    assert.equal(await agents.thaw(id, never), false)
    assert.deepEqual(agent.heard, [])
    const gone = await stage(t, () => '', {
      ...patient,
      address: () => ({ path: '/nonexistent/agent.sock' }),
    })
    assert.equal(await gone.agents.freeze(id, never), 'none')
    assert.equal(await gone.agents.thaw(id, never), true)
  },
)

test('a freeze whose agent restarts meanwhile may be in force', async (t) => {
  let listens = true
  const script: Script = ({ execute }) => {
    listens = execute !== FREEZE
    return '{"error": {"class": "GenericError"}}\n'
  }
  const { agents } = await stage(t, script, { listens: async () => listens, freezeMs: 600_000 })
  assert.equal(await agents.freeze(id, never), 'unknown')
  assert.equal(await agents.thaw(id, never), false)
})

test('a guest whose agent does not answer counts as thawed only once the agent answers', async (t) => {
  let thaws = false
  const script: Script = ({ execute }) => (execute === FREEZE || thaws ? '{"return": 1}\n' : '')
  const { agents, agent } = await stage(t, script, { freezeMs: 500, thawRetryMs: 5, answerMs: 20 })
  assert.equal(await agents.freeze(id, never), 'frozen')
  assert.equal(await agents.thaw(id, never), false)
  assert.ok(agent.commands().filter((command) => command === THAW).length > 1, 'it was asked once')
  thaws = true
  assert.equal(await agents.thaw(id, never), true)
})

test('an agent that refuses to thaw is asked whether anything is frozen', async (t) => {
  let status = 'frozen'
  const script: Script = ({ execute }) =>
    execute === STATUS ? `{"return": "${status}"}\n` : '{"error": {"class": "GenericError"}}\n'
  const { agents } = await stage(t, script, { freezeMs: 500, thawRetryMs: 5 })
  assert.equal(await agents.thaw(id, never), false)
  status = 'thawed'
  assert.equal(await agents.thaw(id, never), true)
})

for (const how of ['let go', 'aborted']) {
  test(`no agent is asked any longer once the agents are ${how}, and nothing counts as thawed`, async (t) => {
    const agent = await scriptedAgent(t, () => '')
    let asked = 0
    const listens = async (): Promise<boolean> => {
      asked += 1
      return true
    }
    const patient = { freezeMs: 600_000, answerMs: 600_000 }
    const agents = new GuestAgents({
      address: () => ({ path: agent.path }),
      listens,
      log: silentLog,
      ...patient,
    })
    const aborting = new AbortController()
    const thawing = agents.thaw(id, aborting.signal)
    await until(
      () => agent.heard.length,
      (lines) => lines === 1,
    )
    if (how === 'let go') agents.close()
    else aborting.abort()
    assert.equal(await thawing, false)
    assert.equal(asked, 1)
  })
}
