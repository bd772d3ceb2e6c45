import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { until } from '../../../test/contract/until.ts'
import { limits } from '../../config/limits.ts'
import { MonitorLost, MonitorRefusal } from '../monitors/monitor-error.ts'
import { QmpClient } from './qmp.ts'
import type { QmpOptions } from './qmp.ts'

const GREETING = '{"QMP": {"version": {}, "capabilities": []}}\r\n'

/** Plays the monitor's side of one connection by hand. */
class Peer {
  readonly #socket: Socket
  readonly #lines: string[] = []
  #wake: () => void = () => {}

  constructor(socket: Socket) {
    this.#socket = socket
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      const lines = (text + chunk).split('\n')
      text = lines.pop() ?? ''
      this.#lines.push(...lines)
      this.#wake()
    })
    socket.on('error', () => {})
  }

  say(text: string): void {
    this.#socket.write(text)
  }

  get heard(): number {
    return this.#lines.length
  }

  async hear(): Promise<{ execute: string; id: number; arguments?: unknown }> {
    while (this.#lines.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve))
    return JSON.parse(this.#lines.shift() ?? '')
  }

  async answer(value: unknown): Promise<void> {
    const { id } = await this.hear()
    this.say(`${JSON.stringify({ return: value, id })}\n`)
  }

  async gone(): Promise<void> {
    if (!this.#socket.destroyed) await once(this.#socket, 'close')
  }

  hangUp(): void {
    this.#socket.destroy()
  }
}

async function listen(t: TestContext): Promise<{ path: string; peer: Promise<Peer> }> {
  const directory = mkdtempSync(join(tmpdir(), 'qmp-'))
  const path = join(directory, 'qmp.sock')
  const server = createServer()
  const peer = once(server, 'connection').then(([socket]) => new Peer(socket as Socket))
  server.listen(path)
  await once(server, 'listening')
  t.after(async () => {
    server.close()
    if (server.connections !== 0) (await peer).hangUp()
    rmSync(directory, { recursive: true })
  })
  return { path, peer }
}

async function connected(
  t: TestContext,
  options: QmpOptions = {},
): Promise<{ client: QmpClient; peer: Peer }> {
  const { path, peer } = await listen(t)
  const connecting = QmpClient.connect(path, options)
  const monitor = await peer
  monitor.say(GREETING)
  await monitor.answer({})
  const client = await connecting
  t.after(() => client.close())
  return { client, peer: monitor }
}

const lostBecause = (why: string) => (error: unknown) => error instanceof MonitorLost && error.why === why

test('nothing is sent before the greeting, and then capabilities are negotiated first', async (t) => {
  const { path, peer } = await listen(t)
  const connecting = QmpClient.connect(path)
  const monitor = await peer
  monitor.say(GREETING.slice(0, 20))
  assert.equal(monitor.heard, 0)
  monitor.say(GREETING.slice(20))
  const { execute, id } = await monitor.hear()
  assert.equal(execute, 'qmp_capabilities')
  monitor.say(`{"return": {}, "id": ${id}}\n`)
  ;(await connecting).close()
})

test('answers are matched with their command by id, in any order and however they are cut', async (t) => {
  const { client, peer } = await connected(t)
  const first = client.execute('first', { size: 1 })
  const second = client.execute('second')
  const a = await peer.hear()
  const b = await peer.hear()
  assert.deepEqual([a.execute, a.arguments, b.execute], ['first', { size: 1 }, 'second'])
  peer.say(`{"return": "grü`)
  peer.say(`ße", "id": ${b.id}}\n{"return": 1, "id": ${a.id}}\n`)
  assert.deepEqual([await first, await second], [1, 'grüße'])
})

test('a refused command returns the reason, and the connection continues', async (t) => {
  const { client, peer } = await connected(t)
  const refused = client.execute('cont')
  const { id } = await peer.hear()
  peer.say(`{"error": {"class": "GenericError", "desc": "Resetting is required"}, "id": ${id}}\n`)
  await assert.rejects(refused, new MonitorRefusal({ desc: 'Resetting is required' }))
  const next = client.execute('query-status')
  await peer.answer({ status: 'paused' })
  assert.deepEqual(await next, { status: 'paused' })
})

test('events are delivered while a command is under way', async (t) => {
  const events: string[] = []
  const { client, peer } = await connected(t, { onEvent: ({ event }) => events.push(event) })
  const stopped = client.execute('stop')
  peer.say('{"event": "STOP", "timestamp": {"seconds": 1, "microseconds": 2}}\n')
  await peer.answer({})
  await stopped
  assert.deepEqual(events, ['STOP'])
})

test('a monitor that floods the daemon with events is read slowly', async (t) => {
  let events = 0
  const { peer } = await connected(t, { onEvent: () => (events += 1) })
  const other = await connected(t)
  const piece = '{"event": "STOP"}\n'.repeat(limits.qmpLinesBurst)
  for (let part = 0; part < 4; part += 1) peer.say(piece)
  await until(
    () => events,
    (count) => count >= limits.qmpLinesBurst,
  )
  // Each command of the other monitor gives the events time to come.
  for (let command = 0; command < 200; command += 1) {
    const status = other.client.execute('query-status')
    await other.peer.answer({})
    await status
  }
  assert.ok(events < 3 * limits.qmpLinesBurst, `${events} came`)
})

test('a monitor that floods the daemon with long lines is read slowly', async (t) => {
  let events = 0
  // No time passes, so what comes is one burst.
  t.mock.method(performance, 'now', () => 0)
  const { peer } = await connected(t, { onEvent: () => (events += 1) })
  const other = await connected(t)
  const line = `{"event": "STOP", "data": "${'x'.repeat(limits.qmpLineBytesMax / 2)}"}\n`
  const burst = Math.floor(limits.qmpBytesBurst / line.length)
  peer.say(line.repeat(4 * burst))
  await until(
    () => events,
    (count) => count >= burst,
  )
  for (let command = 0; command < 200; command += 1) {
    const status = other.client.execute('query-status')
    await other.peer.answer({})
    await status
  }
  assert.ok(events < 3 * burst, `${events} came`)
})

test('a condition is checked again after each event, and the wait ends with the connection', async (t) => {
  const { client, peer } = await connected(t)
  const { signal } = new AbortController()
  const answers = ['active', 'active', 'completed']
  const ask = async (): Promise<string | undefined> => {
    const status = (await client.execute('query-migrate')) as string
    return status === 'active' ? undefined : status
  }
  const over = client.onceSo(ask, signal)
  for (const answer of answers) {
    await peer.answer(answer)
    peer.say('{"event": "MIGRATION"}\n')
  }
  assert.equal(await over, 'completed')
  assert.equal(peer.heard, 0)
  const lost = client.onceSo(ask, signal)
  await peer.answer('active')
  peer.hangUp()
  await assert.rejects(lost, lostBecause('closed'))
})

test('a monitor that is busy with another client is given up after the deadline', async (t) => {
  const { path, peer } = await listen(t)
  await assert.rejects(QmpClient.connect(path, { greetingMs: 20 }), lostBecause('no greeting'))
  await (await peer).gone()
})

test('a monitor that greets and then hangs is given up after the deadline', async (t) => {
  const { path, peer } = await listen(t)
  const connecting = QmpClient.connect(path, { commandMs: 20 })
  ;(await peer).say(GREETING)
  await assert.rejects(connecting, lostBecause('no answer'))
  await (await peer).gone()
})

test('a command past its deadline ends the connection and all other commands', async (t) => {
  let closed = 0
  const { client, peer } = await connected(t, { commandMs: 500, onClose: () => closed++ })
  const late = client.execute('query-status')
  const other = client.execute('query-version')
  await assert.rejects(late, lostBecause('no answer'))
  await assert.rejects(other, lostBecause('no answer'))
  await peer.gone()
  await assert.rejects(client.execute('query-status'), lostBecause('no answer'))
  assert.equal(closed, 1)
})

test('a deadline ends with its command', async (t) => {
  const commandMs = 10_000
  const { client, peer } = await connected(t, { commandMs })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  for (let command = 0; command < 2; command += 1) {
    const asked = client.execute('query-status')
    await peer.answer('fine')
    assert.equal(await asked, 'fine')
    t.mock.timers.tick(commandMs)
  }
})

test('a monitor that closes the connection ends its commands and is reported once', async (t) => {
  const closed = Promise.withResolvers<void>()
  const { client, peer } = await connected(t, { onClose: closed.resolve })
  const asked = client.execute('query-status')
  await peer.hear()
  peer.hangUp()
  await assert.rejects(asked, MonitorLost)
  await closed.promise
})

test('an abort rejects at once and does not affect other users of the connection', async (t) => {
  const { client, peer } = await connected(t)
  const controller = new AbortController()
  const reason = new Error('the VM is being deleted')
  const aborted = client.execute('stop', undefined, controller.signal)
  const { id } = await peer.hear()
  controller.abort(reason)
  await assert.rejects(aborted, reason)
  peer.say(`{"return": {}, "id": ${id}}\n`)
  const next = client.execute('query-status')
  await peer.answer('fine')
  assert.equal(await next, 'fine')
})

for (const [what, text, why] of [
  ['a line without end', 'x'.repeat(200), 'line too long'],
  ['a line past the bound', `{"return": "${'x'.repeat(200)}"}\n`, 'line too long'],
  ['text that is not JSON', 'HTTP/1.1 400 Bad Request\r\n', 'not a QMP message'],
  ['JSON that is not an object', '[1]\n', 'not a QMP message'],
  ['a second greeting', GREETING, 'not a QMP message'],
  ['an error that answers nothing', '{"error": {"desc": "JSON parse error"}}\n', 'an answer without id'],
] as const) {
  test(`${what} ends the connection`, async (t) => {
    const { client, peer } = await connected(t, { lineBytesMax: 100 })
    const asked = client.execute('query-status')
    peer.say(text)
    await assert.rejects(asked, lostBecause(why))
    await peer.gone()
  })
}

test('the text of a refusal has a bounded number of characters', async (t) => {
  const { client, peer } = await connected(t)
  const asked = client.execute('stop')
  const { id } = await peer.hear()
  peer.say(`${JSON.stringify({ error: { desc: 'a-'.repeat(30_000) }, id })}\n`)
  await assert.rejects(asked, (error: Error) => {
    assert.ok(error instanceof MonitorRefusal)
    return error.message.length <= limits.monitorTextCharactersMax
  })
})

test('nothing is sent to a peer that is not a monitor', async (t) => {
  const { path, peer } = await listen(t)
  const connecting = QmpClient.connect(path)
  const other = await peer
  other.say('{"event": "STOP"}\n')
  await assert.rejects(connecting, lostBecause('not a QMP message'))
  await other.gone()
  assert.equal(other.heard, 0)
})

test('a socket that does not exist is reported by its errno', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'qmp-'))
  t.after(() => rmSync(directory, { recursive: true }))
  await assert.rejects(QmpClient.connect(join(directory, 'qmp.sock')), lostBecause('ENOENT'))
})
