import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { until } from '../contract/until.ts'
import { assertProblem, makePki, startControllerHost } from './support/controller-host.ts'
import { createVm, refused, startConsole, stopConsole, watch, WEB } from './support/console-viewer.ts'
import type { TestContext } from 'node:test'
import type { Departure } from '../../src/core/migration/departure.ts'
import type { FakeSession } from '../fakes/fake-session.ts'
import type { ControllerHost, Pki } from './support/controller-host.ts'
import type { Dialling, TestViewer } from './support/console-viewer.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

type Stage = {
  readonly host: ControllerHost
  readonly session: FakeSession
  readonly watch: (query?: string, dialling?: Dialling) => Promise<TestViewer>
}

async function stage(t: TestContext): Promise<Stage> {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const session = await startConsole(host)
  return { host, session, watch: (query = '', dialling = {}) => watch(t, host, pki, { query, ...dialling }) }
}

const say = (session: FakeSession, text: string): void => session.say(Buffer.from(text))

/** Returns numbered lines, so that a lost or doubled one is visible. */
const lines = (from: number, count: number): string =>
  Array.from({ length: count }, (_, index) => `line ${from + index}\r\n`).join('')

const typedBy = (session: FakeSession, done: (typed: string) => boolean): Promise<string> =>
  until(() => session.terminal.typed, done)

test('a viewer sees past output, then new output, and knows its position', async (t) => {
  const { session, watch: look } = await stage(t)
  say(session, 'booting\r\n')
  const viewer = await look()
  await viewer.shows('booting\r\n')
  assert.deepEqual(viewer.texts, [
    { attached: { mode: 'tty', session: session.id, cursor: 0, replay_bytes: 9, lost_bytes: 0 } },
  ])
  say(session, 'login: ')
  await viewer.shows('login: ')
  viewer.send({ position: {} })
  assert.deepEqual(await viewer.message(1), { position: { session: session.id, cursor: 16 } })
  viewer.send({ output: { paused: true } })
  assert.equal((await viewer.message(2))['error'].code, 'invalid_message')
})

test('between replay and live output no byte is lost or doubled, whenever a viewer connects', async (t) => {
  const { session, watch: look } = await stage(t)
  let said = 0
  let talking = true
  const talk = (): void => {
    if (!talking) return
    say(session, lines(said, 20))
    said += 20
    setImmediate(talk)
  }
  talk()
  const viewers: TestViewer[] = []
  while (viewers.length < 8) viewers.push(await look())
  talking = false
  const all = lines(0, said)
  await Promise.all(viewers.map((viewer) => viewer.shows(lines(said - 1, 1))))
  for (const viewer of viewers) {
    const [{ attached }] = viewer.texts
    assert.equal(viewer.texts.length, 1)
    assert.equal(viewer.text, all.slice(attached.cursor))
    assert.equal(attached.lost_bytes, 0)
  }
})

test('a viewer that returns with its cursor gets exactly what it missed', async (t) => {
  const { session, watch: look } = await stage(t)
  say(session, 'one two three')
  const viewer = await look(`?since=4&session=${session.id}`)
  await viewer.shows('two three')
  assert.equal(viewer.text, 'two three')
  assert.deepEqual(viewer.texts[0].attached, {
    mode: 'tty',
    session: session.id,
    cursor: 4,
    replay_bytes: 9,
    lost_bytes: 0,
  })
  const without = await look('?since=8')
  await without.shows('three')
  assert.equal(without.text, 'three')
})

test('a viewer is informed how many bytes are gone', async (t) => {
  const { session, watch: look } = await stage(t)
  say(session, 'x'.repeat(limits.consoleHistoryBytes))
  say(session, 'y'.repeat(1000))
  const viewer = await look(`?since=400&session=${session.id}`)
  const { attached } = viewer.texts[0]
  assert.equal(attached.lost_bytes, 600)
  assert.equal(attached.cursor, 1000)
  assert.equal(attached.replay_bytes, limits.consoleHistoryBytes)
  await until(
    () => viewer.bytes.length,
    (length) => length === limits.consoleHistoryBytes,
  )
})

test('a cursor of another session, or from the future, gives all kept output and reports no loss', async (t) => {
  const { session, watch: look } = await stage(t)
  say(session, 'all of it')
  for (const query of [
    '?since=3&session=ffffffffffffffff',
    `?since=10&session=${session.id}`,
    '?since=999',
  ]) {
    const viewer = await look(query)
    await viewer.shows('all of it')
    assert.equal(viewer.texts[0].attached.lost_bytes, 0, query)
    assert.equal(viewer.texts[0].attached.cursor, 0, query)
  }
})

test('sixteen viewers see the same, the seventeenth is refused, and a place is free again when one leaves', async (t) => {
  const { host, session, watch: look } = await stage(t)
  const viewers = await Promise.all(Array.from({ length: 16 }, () => look()))
  assertProblem(await refused(host, pki), 429, 'console_viewers_full')
  say(session, 'for all')
  await Promise.all(viewers.map((viewer) => viewer.shows('for all')))
  viewers[3]?.socket.close()
  await until(
    () => host.hub.viewers(WEB),
    (taken) => taken === 15,
  )
  const late = await look()
  await late.shows('for all')
})

test('output that is passed on to viewers is counted, for each of them', async (t) => {
  const { session, watch: look } = await stage(t)
  say(session, '12345')
  await Promise.all([look(), look(), look()])
  assert.equal(session.spent, 15)
  say(session, '67')
  await until(
    () => session.spent,
    (spent) => spent === 21,
  )
})

test('input of all viewers reaches the guest, each in its order', async (t) => {
  const { session, watch: look } = await stage(t)
  const viewers = await Promise.all(['a', 'b', 'c', 'd'].map(() => look()))
  const ROUNDS = 200
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [who, viewer] of viewers.entries()) viewer.type(`${who}:${round};`)
  const typed = await typedBy(session, (text) => text.split(';').length === 4 * ROUNDS + 1)
  const all = typed.split(';').slice(0, -1)
  for (const who of viewers.keys()) {
    const own = all.filter((one) => one.startsWith(`${who}:`)).map((one) => Number(one.split(':')[1]))
    assert.deepEqual(own, [...Array(ROUNDS).keys()])
  }
})

test('while the guest does not read, no viewer is read either, and nothing is lost', async (t) => {
  const { host, session, watch: look } = await stage(t)
  session.readInput(false)
  const [one, two] = await Promise.all([look(), look()])
  const BLOCK = 32 * 1024
  const BLOCKS = 1024
  for (let block = 0; block < BLOCKS; block += 1) one.type(Buffer.alloc(BLOCK, block % 256))
  const isPaused = (viewer: TestViewer): boolean => viewer.socket.bufferedAmount > 8 * 1024 * 1024
  await until(
    () => session.inputWaiting,
    (waiting) => waiting > limits.consoleInputBytesMax,
  )
  assert.ok(isPaused(one))
  // The sender holds the rest: only a few reads of the socket pass the limit, not the 32 MiB that were sent.
  assert.ok(session.inputWaiting < limits.consoleInputBytesMax + 4 * 64 * 1024)
  two.type('second')
  const late = await look()
  late.type('third')
  // An unread answer cuts off no viewer.
  host.clock.advance(limits.consolePingMs * 2)
  session.readInput(true)
  await until(
    () => session.terminal.typed.length,
    (length) => length === BLOCK * BLOCKS + 'secondthird'.length,
  )
  assert.ok(!one.isOver && !two.isOver && !late.isOver)
})

test('the last viewer that reports its window size wins, also for the next session', async (t) => {
  const { host, session, watch: look } = await stage(t)
  const one = await look('?cols=100&rows=30&follow=true')
  assert.deepEqual(session.terminal.window, { cols: 100, rows: 30 })
  const two = await look('?follow=true')
  two.send({ resize: { cols: 132, rows: 43 } })
  await until(
    () => session.terminal.window.cols,
    (cols) => cols === 132,
  )
  await stopConsole(host)
  await one.message(1)
  assert.deepEqual((await startConsole(host)).terminal.window, { cols: 132, rows: 43 })
})

test('the last output of a session comes before its end', async (t) => {
  const { host, session, watch: look } = await stage(t)
  const viewer = await look()
  say(session, 'Power down')
  await stopConsole(host)
  assert.deepEqual(await viewer.ended(), { status: 1000, reason: 'vm_stopped' })
  assert.equal(viewer.text, 'Power down')
  await until(
    () => host.hub.viewers(WEB),
    (taken) => taken === 0,
  )
})

test('a viewer that follows waits for the next session, with its cursors', async (t) => {
  const { host, session, watch: look } = await stage(t)
  const viewer = await look('?follow=true')
  say(session, 'first')
  await stopConsole(host)
  assert.deepEqual(await viewer.message(1), { waiting: { for: 'start' } })
  assert.equal(viewer.text, 'first')
  viewer.type('into the void')
  viewer.send({ position: {} })
  assert.deepEqual(await viewer.message(2), { waiting: { for: 'start' } })
  const next = await startConsole(host)
  assert.notEqual(next.id, session.id)
  assert.deepEqual((await viewer.message(3)).attached, {
    mode: 'tty',
    session: next.id,
    cursor: 0,
    replay_bytes: 0,
    lost_bytes: 0,
  })
  say(next, 'second')
  await viewer.shows('second')
  viewer.type('now')
  assert.equal(await typedBy(next, (typed) => typed !== ''), 'now')
})

test('a viewer that follows may connect before there is a session', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  assertProblem(await refused(host, pki), 409, 'vm_not_running')
  const viewer = await watch(t, host, pki, { query: '?follow=true' })
  assert.deepEqual(viewer.texts, [{ waiting: { for: 'start' } }])
  const session = await startConsole(host)
  say(session, 'hello')
  await viewer.shows('hello')
})

test('a viewer that follows and comes after the end is shown the last session, and then waits', async (t) => {
  const { host, session, watch: look } = await stage(t)
  say(session, 'panic: all is lost')
  await stopConsole(host)
  const viewer = await look('?follow=true')
  assert.deepEqual(await viewer.message(1), { waiting: { for: 'start' } })
  assert.equal(viewer.text, 'panic: all is lost')
  const back = await look(`?follow=true&session=${session.id}&since=${viewer.text.length}`)
  assert.deepEqual(await back.message(0), { waiting: { for: 'start' } })
})

test('a VM that is deleted ends its consoles, including those that follow', async (t) => {
  const { host, watch: look } = await stage(t)
  const [viewer, follower] = await Promise.all([look(), look('?follow=true')])
  await host.call({ method: 'DELETE', path: `/v1/vms/${WEB}` })
  await stopConsole(host)
  assert.deepEqual(await viewer.ended(), { status: 1000, reason: 'vm_deleted' })
  assert.deepEqual(await follower.ended(), { status: 1000, reason: 'vm_deleted' })
  assertProblem(await refused(host, pki, { query: '?follow=true' }), 409, 'vm_deleting')
})

test('the console of a VM that moved is at its new host: viewers are closed, and none may wait for a start', async (t) => {
  const { host, watch: look } = await stage(t)
  const [viewer, follower] = await Promise.all([look(), look('?follow=true')])
  host.store.departures.set(WEB, RELEASED, 2000)
  const end = { status: 1000, reason: 'vm_moved: node-2' }
  assert.deepEqual([await viewer.ended(), await follower.ended()], [end, end])
  for (const query of ['', '?follow=true', '?mode=ssh']) {
    const problem = assertProblem(await refused(host, pki, { query }), 409, 'vm_migrated')
    assert.equal(
      problem.detail,
      'web-1 was released to node-2 by migration move-7: its console is at that host',
    )
  }
  await host.host.consoles.remove(WEB)
  assertProblem(await host.call({ path: `/v1/vms/${WEB}/console/log` }), 409, 'vm_migrated')
})

const RELEASED = { id: 'move-7', node: 'node-2', mode: 'live', stage: 'released', sinceMs: 1000 } as Departure

test('a VM that runs without a stored console is not reported as stopped', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  host.store.vms.recordProgress(WEB, { observed: { state: 'running', sinceMs: 1000 }, nowMs: 2000 })
  const problem = assertProblem(await refused(host, pki), 409, 'vm_not_running')
  assert.equal(problem.detail, 'web-1 is running, but its console is not stored: stop it and start it again')
})

test('a viewer that waits for a start is notified when its VM is forgotten', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const viewer = await watch(t, host, pki, { query: '?follow=true' })
  await host.call({ method: 'DELETE', path: `/v1/vms/${WEB}` })
  host.store.vms.forget(WEB, 0)
  assert.deepEqual(await viewer.ended(), { status: 1000, reason: 'vm_deleted' })
  assertProblem(await refused(host, pki), 404, 'not_found')
})
