/** The client's console over real mutual TLS, against a daemon that the test plays. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { before, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { ApiProblem } from '../../src/client/api-problem.ts'
import { ConnectionFailed } from '../../src/client/connection-failed.ts'
import { ConsoleConnection } from '../../src/client/console/console-connection.ts'
import { wsLinks } from '../../src/client/ws-links.ts'
import { limits } from '../../src/config/limits.ts'
import { collectGarbage } from '../daemon/support/collect-garbage.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { attached, problem, startConsoleServer } from './support/console-server.ts'
import { HeldClock } from '../fakes/held-clock.ts'
import { attacher, TTY, watcher } from './support/watched-console.ts'
import type { TestContext } from 'node:test'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const watch = watcher(() => pki)
const attachedOnce = attacher(() => pki)

function connect(url: string): ConsoleConnection {
  const { authority, controller } = pki
  const connection = { url, ca: authority.certificate, cert: controller.certificate, key: controller.key }
  return new ConsoleConnection(wsLinks(connection), TTY, new HeldClock())
}

/** A console whose events are taken one at a time, after the first event: it is attached. */
async function takenOneByOne(t: TestContext) {
  const server = await startConsoleServer(t, pki)
  const console = connect(server.url)
  const events = console.events()
  const begun = events.next()
  const served = await server.connection(0)
  served.deliver(attached('s1', 0))
  await begun
  return { console, events, served }
}

test('a console asks for the whole history with its window, and counts its output', async (t) => {
  const server = await startConsoleServer(t, pki)
  const watched = watch(t, server, { ...TTY, window: { cols: 120, rows: 40 } })
  const { query, ...served } = await server.connection(0)
  assert.deepEqual(Object.fromEntries(query), { mode: 'tty', cols: '120', rows: '40' })
  served.deliver(attached('s1', 1000, { replay_bytes: 5, lost_bytes: 2 }))
  served.say('hello')
  await eventually(() => watched.output() === 'hello')
  const place = { session: 's1', cursor: 1000, replayBytes: 5, lostBytes: 2 }
  assert.deepEqual(watched.events[0], { kind: 'attached', place, again: false, guest: 'running' })
  assert.equal(watched.console.cursor, 1005)
})

test('input arrives in order, in messages of a size that the daemon accepts, however it was cut', async (t) => {
  const server = await startConsoleServer(t, pki)
  const watched = watch(t, server)
  const served = await server.connection(0)
  const sizes: number[] = []
  served.ws.on('message', (data: Buffer) => sizes.push(data.length))
  served.deliver(attached('s1', 0))
  const text = Array.from({ length: 40_000 }, (_, index) => `line ${index}\n`).join('')
  for (let at = 0; at < text.length; at += 777)
    void watched.console.write(Buffer.from(text.slice(at, at + 777)))
  void watched.console.write(Buffer.alloc(3 * limits.consoleMessageBytesMax, 'x'))
  const whole = text + 'x'.repeat(3 * limits.consoleMessageBytesMax)
  await eventually(() => served.input().length === whole.length)
  assert.equal(served.input(), whole)
  assert.ok(Math.max(...sizes) <= limits.consoleMessageBytesMax)
})

test('a writer is held back while too much input waits, and continues when it is sent', async (t) => {
  const server = await startConsoleServer(t, pki)
  const watched = watch(t, server)
  const served = await server.connection(0)
  const half = Buffer.alloc(limits.clientConsoleInputBytesMax / 2, 'x')
  await watched.console.write(half)
  await watched.console.write(half)
  assert.equal(watched.console.hasRoom, true)
  const room = watched.console.write(Buffer.from('y'))
  assert.equal(watched.console.hasRoom, false)
  served.deliver(attached('s1', 0))
  await room
  assert.equal(watched.console.hasRoom, true)
})

test('a resize while the daemon is away goes into the next connection; later ones are messages', async (t) => {
  const { server, clock, watched, first } = await attachedOnce(t)
  first.ws.terminate()
  await eventually(() => watched.kinds().includes('away'))
  watched.console.resize({ cols: 100, rows: 30 })
  await clock.wake(limits.clientReconnectMsMin)
  const second = await server.connection(1)
  assert.equal(second.query.get('cols'), '100')
  second.deliver(attached('s1', 0))
  watched.console.resize({ cols: 101, rows: 31 })
  await eventually(() => second.received().length === 1)
  assert.deepEqual(second.received(), [{ resize: { cols: 101, rows: 31 } }])
})

test('a position is requested and reported', async (t) => {
  const server = await startConsoleServer(t, pki)
  const watched = watch(t, server)
  const served = await server.connection(0)
  served.deliver(attached('s1', 7))
  watched.console.askPosition()
  await eventually(() => served.received().length === 1)
  assert.deepEqual(served.received(), [{ position: {} }])
  served.deliver({ position: { session: 's1', cursor: 7 } })
  await eventually(() => watched.kinds().includes('position'))
  assert.deepEqual(watched.events.at(-1), { kind: 'position', session: 's1', cursor: 7 })
})

test('messages of a newer daemon and nonsense are ignored', async (t) => {
  const server = await startConsoleServer(t, pki)
  const watched = watch(t, server)
  const served = await server.connection(0)
  served.deliver({ fanfare: { loud: true } })
  for (const text of [
    'no JSON',
    '[1]',
    'null',
    '{"attached":{"mode":"tty"}}',
    '{"position":{"cursor":-1}}',
  ]) {
    served.ws.send(text)
  }
  served.deliver(attached('s1', 0))
  await eventually(() => watched.kinds().includes('attached'))
  assert.deepEqual(watched.kinds(), ['attached'])
})

test('input waits while the console waits for a VM', async (t) => {
  const server = await startConsoleServer(t, pki)
  const clock = new HeldClock()
  const watched = watch(t, server, { ...TTY, follow: true }, clock)
  const served = await server.connection(0)
  assert.equal(served.query.get('follow'), 'true')
  served.deliver({ waiting: { for: 'start' } })
  await eventually(() => watched.kinds().includes('waiting'))
  void watched.console.write(Buffer.from('for the next'))
  watched.console.resize({ cols: 90, rows: 20 })
  served.deliver(attached('s1', 0))
  await eventually(() => served.input() === 'for the next')
  assert.deepEqual(served.received(), [{ resize: { cols: 90, rows: 20 } }])
  served.deliver({ waiting: { for: 'start' } })
  await eventually(() => watched.kinds().filter((kind) => kind === 'waiting').length === 2)
  void watched.console.write(Buffer.from('and for this one'))
  served.ws.terminate()
  await clock.wake(limits.clientReconnectMsMin)
  const next = await server.connection(1)
  next.deliver({ waiting: { for: 'start' } })
  next.deliver(attached('s2', 0))
  await eventually(() => next.input() === 'and for this one')
})

test('a console that waits knows how much it has seen of the session before, and is not shown it twice', async (t) => {
  const server = await startConsoleServer(t, pki)
  const clock = new HeldClock()
  const watched = watch(t, server, { ...TTY, follow: true }, clock)
  const served = await server.connection(0)
  served.deliver(attached('s1', 10))
  served.say('abc')
  served.deliver({ waiting: { for: 'start' } })
  await eventually(() => watched.kinds().includes('waiting'))
  served.ws.terminate()
  await clock.wake(limits.clientReconnectMsMin)
  const { query } = await server.connection(1)
  assert.deepEqual([query.get('session'), query.get('since')], ['s1', '13'])
})

test('an end that the daemon announces is final, with its code and words', async (t) => {
  for (const [status, reason, code, words] of [
    [1000, 'vm_stopped', 'vm_stopped', ''],
    [1008, 'too_many_messages', 'too_many_messages', ''],
    [1011, 'ssh_failed: no common cipher', 'ssh_failed', 'no common cipher'],
    [1009, '', '', ''],
    [1011, 'Out of luck', '', 'Out of luck'],
  ] as const) {
    const server = await startConsoleServer(t, pki)
    const watched = watch(t, server)
    const served = await server.connection(0)
    served.deliver(attached('s1', 0))
    served.say('last words')
    served.ws.close(status, reason)
    await watched.ended
    assert.deepEqual(watched.events.at(-1), { kind: 'closed', close: { status, code, words } })
    assert.equal(watched.output(), 'last words')
    assert.equal(server.served.length, 1)
  }
})

test('unread output stops reading from the connection, and none of it is lost', async (t) => {
  const { console, events, served } = await takenOneByOne(t)
  // Far more than the two ends of a connection can hold between them.
  const total = 32 * 1024 * 1024
  const piece = Buffer.alloc(64 * 1024, 'x')
  for (let sent = 0; sent < total; sent += piece.length) served.ws.send(piece)
  let taken = 0
  let heldMost = 0
  while (taken < total) {
    // The reader is much slower than the connection.
    for (let turn = 0; turn < 10; turn += 1) await setImmediate()
    heldMost = Math.max(heldMost, total - served.ws.bufferedAmount - taken)
    const { value } = await events.next()
    if (value?.kind === 'output') taken += value.bytes.length
  }
  assert.ok(heldMost < total / 2, `${heldMost} bytes were sent and not taken`)
  assert.equal(console.cursor, total)
  await events.return(undefined)
})

const BATCH = 1000

test('a message that was taken leaves nothing behind', async (t) => {
  const server = await startConsoleServer(t, pki)
  const console = connect(server.url)
  const ended = (async (): Promise<void> => {
    for await (const { kind } of console.events()) assert.notEqual(kind, 'away')
  })()
  const served = await server.connection(0)
  served.deliver(attached('s1', 0))
  /** Returns the size of the heap after that many batches have come. */
  const heapAfter = async (batches: number): Promise<number> => {
    for (let batch = 0; batch < batches; batch += 1) {
      for (let message = 0; message < BATCH; message += 1) served.say('x')
      const total = console.cursor + BATCH
      await eventually(() => console.cursor === total)
    }
    collectGarbage()
    await setImmediate()
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  const first = await heapAfter(10)
  const messages = 50 * BATCH
  const grown = (await heapAfter(50)) - first
  console.close()
  await ended
  assert.ok(grown < 64 * messages, `${Math.round(grown / messages)} bytes a message`)
})

test('no received output appears after leaving', async (t) => {
  const { console, events, served } = await takenOneByOne(t)
  for (let piece = 0; piece < 10; piece += 1) served.say('x')
  // The peer answers only after it has read everything before.
  served.ws.ping()
  await once(served.ws, 'pong')
  assert.equal((await events.next()).value?.kind, 'output')
  console.close()
  assert.equal((await events.next()).done, true)
})

test('a close from the client is answered, however much the guest has written', async (t) => {
  const server = await startConsoleServer(t, pki)
  const console = connect(server.url)
  const ended = (async (): Promise<void> => {
    for await (const { kind } of console.events()) if (kind === 'output') console.close()
  })()
  const served = await server.connection(0)
  let status = 0
  served.ws.on('close', (code) => (status = code))
  served.deliver(attached('s1', 0))
  // This is more than is held unread: only a client that continues reading reaches the answer.
  const piece = Buffer.alloc(64 * 1024, 'x')
  for (let sent = 0; sent < 32 * 1024 * 1024; sent += piece.length) served.ws.send(piece)
  await ended
  await eventually(() => status === 1000)
})

test('input typed before leaving reaches the guest', async (t) => {
  const server = await startConsoleServer(t, pki)
  const clock = new HeldClock(() => false)
  const watched = watch(t, server, TTY, clock)
  const served = await server.connection(0)
  served.deliver(attached('s1', 0))
  void watched.console.write(Buffer.from('first '))
  await eventually(() => served.input() === 'first ')
  // The pause after a message never ends here.
  const rest = 'x'.repeat(2 * limits.consoleMessageBytesMax)
  void watched.console.write(Buffer.from(rest))
  void watched.console.write(Buffer.from('exit\r'))
  watched.console.close()
  await watched.ended
  await eventually(() => served.input() === `first ${rest}exit\r`)
})

test('input typed while waiting for a VM is dropped after leaving', async (t) => {
  const server = await startConsoleServer(t, pki)
  const watched = watch(t, server, { ...TTY, follow: true })
  const served = await server.connection(0)
  let status = 0
  served.ws.on('close', (code) => (status = code))
  served.deliver({ waiting: { for: 'start' } })
  await eventually(() => watched.kinds().includes('waiting'))
  void watched.console.write(Buffer.from('for no console'))
  watched.console.close()
  await eventually(() => status === 1000)
  assert.equal(served.input(), '')
})

test('a session that is attached again continues, and one with another id begins', async (t) => {
  const server = await startConsoleServer(t, pki)
  const watched = watch(t, server)
  const served = await server.connection(0)
  for (const session of ['s1', 's1', 's2', 's2']) served.deliver(attached(session, 0))
  await eventually(() => watched.events.length === 4)
  const again = watched.events.map((event) => event.kind === 'attached' && event.again)
  assert.deepEqual(again, [false, true, false, true])
})

test('the first connection must succeed: a refusal is thrown as the problem it is', async (t) => {
  const server = await startConsoleServer(t, pki)
  server.refusals.push(problem(503, 'starting_up', true), { status: 502, body: '<html>' })
  await assert.rejects(
    watch(t, server).ended,
    (error) => error instanceof ApiProblem && error.code === 'starting_up',
  )
  await assert.rejects(watch(t, server).ended, { name: 'UnexpectedAnswer', status: 502 })
  await server.stop()
  await assert.rejects(
    watch(t, server).ended,
    (error) => error instanceof ConnectionFailed && error.kind === 'refused',
  )
})
