/** The reconnecting console over links that the test plays. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { attached, problem } from '../../../test/ctl/support/console-server.ts'
import { eventually } from '../../../test/daemon/support/eventually.ts'
import { FakeLinks } from '../../../test/fakes/fake-links.ts'
import { HeldClock } from '../../../test/fakes/held-clock.ts'
import { limits } from '../../config/limits.ts'
import { closes } from '../../core/console/close.ts'
import { ApiProblem, UnexpectedAnswer } from '../api-problem.ts'
import { ConnectionFailed } from '../connection-failed.ts'
import { ConsoleConnection } from './console-connection.ts'
import type { TestContext } from 'node:test'
import type { ConsoleEvent, ConsoleRequest } from './console-connection.ts'

const TTY = { vm: 'web-1', mode: 'tty', follow: true } as const satisfies ConsoleRequest
const SSH = { vm: 'web-1', mode: 'ssh' } as const satisfies ConsoleRequest

type Options = {
  readonly request?: ConsoleRequest
  readonly inBrowser?: boolean
  readonly insists?: boolean
  /** Failures of the first attempts. */
  readonly failures?: readonly Error[]
}

function watch(
  t: TestContext,
  { request = TTY, inBrowser = false, insists = false, failures = [] }: Options = {},
) {
  const links = new FakeLinks({ inBrowser })
  links.failures.push(...failures)
  const clock = new HeldClock()
  const { sleep, monotonicMs } = clock
  const console = new ConsoleConnection(links, request, { sleep, monotonicMs, insists })
  const events: ConsoleEvent[] = []
  const read = async (): Promise<void> => {
    for await (const event of console.events()) events.push(event)
  }
  const ended = read()
  ended.catch(() => {})
  t.after(() => console.close())
  return {
    ...{ links, clock, console, events, ended, read },
    kinds: () => events.map(({ kind }) => kind),
    output: () =>
      Buffer.concat(events.flatMap((event) => (event.kind === 'output' ? [event.bytes] : []))).toString(),
  }
}

const refused = (status: number, code: string, retryable = false): ApiProblem =>
  new ApiProblem(JSON.parse(problem(status, code, retryable).body))

const isAttached = (event: ConsoleEvent) => event.kind === 'attached'

const OUTPUT = 'byte by byte'

test('wherever a connection breaks, each byte of output arrives once and in order', async (t) => {
  for (let cut = 0; cut <= OUTPUT.length; cut += 1) {
    const { links, clock, console, events, output } = watch(t)
    const first = await links.link(0)
    first.deliver(attached('s1', 100))
    for (const byte of OUTPUT.slice(0, cut)) first.say(byte)
    first.break()
    // This is too late: it belongs to no connection.
    first.say('!')
    await clock.wake(limits.clientReconnectMsMin)
    const second = await links.link(1)
    assert.equal(second.query.get('session'), 's1')
    const since = Number(second.query.get('since'))
    assert.equal(since, 100 + cut)
    second.deliver(attached('s1', since))
    second.say(OUTPUT.slice(since - 100))
    await eventually(() => output() === OUTPUT && events.filter(isAttached).length === 2)
    assert.equal(console.cursor, 100 + OUTPUT.length)
    const again = events.filter(isAttached).map((event) => event.again)
    assert.deepEqual(again, [false, true])
  }
})

test('a connection that breaks before its first message asks again for what the last one asked', async (t) => {
  const { links, clock, kinds } = watch(t)
  const first = await links.link(0)
  first.break()
  await clock.wake(100)
  const second = await links.link(1)
  assert.equal(second.query.toString(), first.query.toString())
  second.deliver(attached('s1', 5))
  await eventually(() => kinds().includes('attached'))
  second.break()
  await clock.wake(100)
  const third = await links.link(2)
  third.break()
  await clock.wake(200)
  assert.equal((await links.link(3)).query.toString(), third.query.toString())
})

test('of each close code a serial console goes on or ends as the table says; a shell always ends', async (t) => {
  for (const [code, meaning] of Object.entries(closes)) {
    for (const request of [TTY, SSH]) {
      const { links, clock, kinds, events, ended } = watch(t, { request })
      const link = await links.link(0)
      link.deliver({ attached: request === TTY ? place : { mode: 'ssh' } })
      link.end(meaning.status, `${code}: words`)
      if (request === TTY && 'again' in meaning) {
        if (code !== 'viewer_behind') await clock.wake(limits.clientReconnectMsMin)
        await links.link(1)
        assert.ok(kinds().includes('lost'), code)
        continue
      }
      await ended
      assert.deepEqual(events.at(-1), {
        kind: 'closed',
        close: { status: meaning.status, code, words: 'words' },
      })
      assert.equal(links.attempts, 1, code)
    }
  }
})

const place = { mode: 'tty', session: 's1', cursor: 0, replay_bytes: 0, lost_bytes: 0 }

test('a state of the guest is said once, also over a reconnect, and a new session begins with one that runs', async (t) => {
  const { links, clock, events } = watch(t)
  const guest = (state: string): object => ({ guest: { state } })
  const first = await links.link(0)
  for (const message of [attached('s1', 0), guest('running'), guest('sleeping')]) first.deliver(message)
  first.break()
  await clock.wake(limits.clientReconnectMsMin)
  const second = await links.link(1)
  for (const message of [attached('s1', 0), guest('sleeping'), guest('in a later version')])
    second.deliver(message)
  for (const message of [attached('s2', 0), guest('running'), guest('paused')]) second.deliver(message)
  const states = () => events.flatMap((event) => (event.kind === 'guest' ? [event.state] : []))
  await eventually(() => states().includes('paused'))
  assert.deepEqual(states(), ['sleeping', 'paused'])
})

test('pauses grow with each connection that brings no session, and a session makes them short again', async (t) => {
  const { links, clock, kinds } = watch(t)
  const first = await links.link(0)
  first.deliver(attached('s1', 0))
  links.failures.push(
    new ConnectionFailed('refused', 'nothing listens'),
    refused(503, 'starting_up', true),
    refused(429, 'console_viewers_full', true),
    new UnexpectedAnswer(502),
  )
  first.break()
  for (const pauseMs of [100, 200, 400, 800, 1600]) await clock.wake(pauseMs)
  // It opens, but brings no session.
  const second = await links.link(1)
  second.break()
  await clock.wake(2000)
  const third = await links.link(2)
  third.deliver(attached('s1', 0))
  await eventually(() => kinds().filter((kind) => kind === 'attached').length === 2)
  third.break()
  await clock.wake(limits.clientReconnectMsMin)
  await links.link(3)
  // Each loss and each failed attempt is an event; the absence is one until a connection opens.
  assert.equal(kinds().filter((kind) => kind === 'lost').length, 3 + 4)
  assert.equal(kinds().filter((kind) => kind === 'away').length, 3)
})

test('a console that insists waits out the failures of its first connection that may pass', async (t) => {
  const failures = [new ConnectionFailed('refused', 'no'), refused(503, 'starting_up', true)]
  const { links, clock, kinds } = watch(t, { insists: true, failures })
  await clock.wake(100)
  await clock.wake(200)
  const link = await links.link(0)
  link.deliver(attached('s1', 0))
  await eventually(() => kinds().includes('attached'))
  assert.deepEqual(kinds(), ['lost', 'away', 'lost', 'attached'])
})

test('a failure that will not pass is thrown, and the events may be read again', async (t) => {
  for (const error of [
    refused(404, 'not_found'),
    refused(429, 'console_viewers_full', true),
    new UnexpectedAnswer(502),
    new ConnectionFailed('untrusted', 'a stranger'),
  ]) {
    const links = new FakeLinks()
    links.failures.push(error)
    const { sleep, monotonicMs } = new HeldClock()
    const console = new ConsoleConnection(links, TTY, { sleep, monotonicMs, insists: true })
    t.after(() => console.close())
    await assert.rejects(console.events().next(), error)
    const next = console.events().next()
    ;(await links.link(0)).deliver(attached('s1', 0))
    assert.equal((await next).value?.kind, 'attached')
  }
})

test('input that was given to a broken connection is not sent again; later input is, once', async (t) => {
  const { links, clock, console, kinds } = watch(t)
  const first = await links.link(0)
  first.deliver(attached('s1', 0))
  void console.write(Buffer.from('ls\n'))
  await eventually(() => first.input === 'ls\n')
  first.takes = 0
  void console.write(Buffer.from('reboot\n'))
  await eventually(() => first.lost === 1)
  first.break()
  await eventually(() => kinds().includes('away'))
  void console.write(Buffer.from('uptime\n'))
  await clock.wake(limits.clientReconnectMsMin)
  const second = await links.link(1)
  assert.equal(second.input, '')
  second.deliver(attached('s1', 0))
  await eventually(() => second.input === 'uptime\n')
})

test('input is cut into messages at any byte, and none is lost', async (t) => {
  const { links, console } = watch(t)
  const link = await links.link(0)
  const bound = limits.consoleMessageBytesMax
  const pieces = [1, bound - 1, bound, bound + 1, 2 * bound + 3, 1].map((size, index) =>
    String(index).repeat(size),
  )
  for (const piece of pieces) void console.write(Buffer.from(piece))
  link.deliver(attached('s1', 0))
  await eventually(() => link.input.length === pieces.join('').length)
  assert.equal(link.input, pieces.join(''))
})

test('an end drops input that was typed for it, so that a console read again does not send it', async (t) => {
  const { links, console, ended, read } = watch(t, { request: SSH })
  const first = await links.link(0)
  first.takes = 1
  first.deliver({ attached: { mode: 'ssh' } })
  void console.write(Buffer.from('x'.repeat(2 * limits.consoleMessageBytesMax)))
  first.end(1000, 'shell_ended: exit status 0')
  await ended
  void read()
  const second = await links.link(1)
  second.deliver({ attached: { mode: 'ssh' } })
  void console.write(Buffer.from('new'))
  await eventually(() => second.input.endsWith('new'))
  assert.equal(second.input, 'new')
})

test('input for the next session is kept while the daemon says again and again that there is none', async (t) => {
  const { links, console, kinds } = watch(t)
  const link = await links.link(0)
  link.deliver({ waiting: { for: 'start' } })
  await eventually(() => kinds().length === 1)
  void console.write(Buffer.from('early'))
  link.deliver({ waiting: { for: 'start' } })
  await eventually(() => kinds().length === 2)
  link.deliver(attached('s1', 0))
  await eventually(() => link.input === 'early')
})

test('input before the first session goes to that session, also after the output of one that is over', async (t) => {
  const { links, console, kinds } = watch(t)
  void console.write(Buffer.from('early'))
  const link = await links.link(0)
  link.deliver({ attached: { ...place, over: true } })
  link.deliver({ waiting: { for: 'start' } })
  await eventually(() => kinds().length === 2)
  link.deliver(attached('s2', 0))
  await eventually(() => link.input === 'early')
})

test('input for a session that has ended meanwhile reaches no other', async (t) => {
  const { links, console, kinds, clock } = watch(t)
  const first = await links.link(0)
  first.deliver(attached('s1', 0))
  await eventually(() => kinds().length === 1)
  first.break()
  void console.write(Buffer.from('for s1'))
  await clock.wake(100)
  const second = await links.link(1)
  second.deliver({ attached: { ...place, over: true } })
  second.deliver({ waiting: { for: 'start' } })
  await eventually(() => kinds().at(-1) === 'waiting')
  void console.write(Buffer.from('for s2'))
  second.deliver(attached('s2', 0))
  await eventually(() => second.input === 'for s2')
})

/** Begins a session, whose events the test takes one by one. */
async function beginSession(t: TestContext, request: ConsoleRequest, where: { readonly inBrowser: boolean }) {
  const links = new FakeLinks(where)
  const console = new ConsoleConnection(links, request, new HeldClock())
  t.after(() => console.close())
  const events = console.events()
  const first = events.next()
  const link = await links.link(0)
  link.deliver(request.mode === 'tty' ? attached('s1', 0) : { attached: { mode: 'ssh' } })
  await first
  return { links, link, events }
}

test('a link that cannot stop reading is given up when too much output waits, and nothing is lost', async (t) => {
  const { links, link: first, events } = await beginSession(t, TTY, { inBrowser: true })
  // A whole history comes in one message.
  first.say('x'.repeat(limits.consoleHistoryBytes))
  first.say('x'.repeat(limits.clientConsoleOutputBytesMax))
  assert.ok(!first.isLeft)
  first.say('y')
  assert.ok(first.isLeft)
  const kinds: string[] = []
  for (let taken = 0; taken < 3; taken += 1) kinds.push((await events.next()).value?.kind)
  assert.deepEqual(kinds, ['output', 'output', 'output'])
  assert.deepEqual((await events.next()).value?.because.code, 'viewer_behind')
  assert.deepEqual(first.received, [])
  const next = events.next()
  const second = await links.link(1)
  const taken = limits.consoleHistoryBytes + limits.clientConsoleOutputBytesMax + 1
  assert.equal(second.query.get('since'), String(taken))
  second.deliver(attached('s1', taken))
  assert.equal((await next).value?.again, true)
})

test('where reading cannot be stopped, a shell is held back while too much output waits', async (t) => {
  const { link, events } = await beginSession(t, SSH, { inBrowser: true })
  const piece = 'x'.repeat(limits.clientConsoleOutputBytesMax)
  link.say(piece)
  // What was on its way still comes.
  for (let more = 0; more < 3; more += 1) link.say(piece)
  assert.deepEqual(link.received, [{ output: { paused: true } }])
  for (let taken = 0; taken < 4; taken += 1) assert.equal((await events.next()).value?.kind, 'output')
  assert.deepEqual(link.received.slice(1), [{ output: { paused: false } }])
  link.say('the end')
  assert.equal(Buffer.from((await events.next()).value?.bytes).toString(), 'the end')
  for (let more = 0; more <= limits.clientConsoleOnItsWayBytesMax; more += piece.length) link.say(piece)
  assert.ok(!link.isLeft)
  link.say(piece)
  assert.ok(link.isLeft, 'a daemon that does not hold it back is left')
})

test('a link that can stop reading is stopped while too much output waits', async (t) => {
  const { link, events } = await beginSession(t, TTY, { inBrowser: false })
  link.say('x'.repeat(limits.clientConsoleOutputBytesMax - 1))
  assert.equal(link.isPaused, false)
  link.say('x')
  assert.equal(link.isPaused, true)
  await events.next()
  assert.equal(link.isPaused, false)
  await events.return(undefined)
})

test('where pings are not heard, a silent daemon is asked, and given up if it does not answer', async (t) => {
  const { links, clock, kinds } = watch(t, { inBrowser: true })
  const link = await links.link(0)
  link.deliver(attached('s1', 0))
  const tick = async (): Promise<void> => {
    clock.nowMs += limits.consolePingMs
    await clock.wake(limits.consolePingMs)
  }
  for (let asked = 1; asked <= 3; asked += 1) {
    await tick()
    await eventually(() => link.received.length === asked)
    clock.nowMs += 1
    link.deliver({ position: { session: 's1', cursor: 0 } })
    await eventually(() => kinds().filter((kind) => kind === 'position').length === asked)
  }
  assert.deepEqual(link.received[0], { position: {} })
  await tick()
  await eventually(() => link.received.length === 4)
  // While input is held back, the daemon reads from its viewers at every other ping.
  await tick()
  await eventually(() => link.received.length === 5)
  await tick()
  await eventually(() => link.isOver)
  await links.link(1)
})

test('an attempt without an answer ends in time', async (t) => {
  const links = new FakeLinks()
  links.isMute = true
  const clock = new HeldClock()
  const console = new ConsoleConnection(links, TTY, clock)
  t.after(() => console.close())
  const begun = console.events().next()
  const late = assert.rejects(begun, { kind: 'late', message: 'daemon:9000 did not answer in time' })
  await clock.wake(limits.clientAnswerMs)
  await late
})
