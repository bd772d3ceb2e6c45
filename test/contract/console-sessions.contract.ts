import assert from 'node:assert/strict'
import { limits } from '../../src/config/limits.ts'
import { until } from './until.ts'
import { heardOf, history, other, viewOf, web } from './consoles-stage.ts'
import type { ConsolesStage } from './consoles-stage.ts'

export type Promised = (what: string, body: (stage: ConsolesStage) => Promise<void>) => void

/** Lines that are all different, so that the test sees a lost, doubled or moved one. */
const lines = (count: number, from = 0): string =>
  Array.from({ length: count }, (_, line) => `line ${from + line}\n`).join('')

/** Promises of every implementation of consoles about its sessions. */
export function sessionsContract(promise: Promised): void {
  outputContract(promise)
  inputContract(promise)
  lifeContract(promise)
}

function outputContract(promise: Promised): void {
  promise('listeners hear all output, in order', async (stage) => {
    await stage.consoles().ensureMaster(web)
    for (let line = 0; line < 20; line++) await stage.say(web, lines(1, line))
    const heard = await heardOf(stage, web, ({ text }) => text.length >= lines(20).length)
    assert.equal(heard.text, lines(20))
  })

  promise('listeners hear much output in order, without a gap', async (stage) => {
    await stage.consoles().ensureMaster(web)
    const said = lines(40_000)
    assert.ok(said.length > limits.consoleHistoryBytes)
    for (let at = 0; at < said.length; at += 50_000) {
      await stage.say(web, said.slice(at, at + 50_000))
      await heardOf(stage, web, ({ text }) => text.length >= Math.min(at + 50_000, said.length))
    }
    const [heard] = await stage.heard(web)
    assert.equal(heard?.text, said)
  })

  promise('a reader gets the output since its offset, or since the oldest byte kept', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.say(web, 'one two')
    await history(stage, web, (text) => text === 'one two')
    const { session, inputWaiting } = await viewOf(stage, web)
    assert.match(session, /^[0-9a-f]{16}$/)
    assert.deepEqual(await viewOf(stage, web, 4), { session, start: 4, end: 7, text: 'two', inputWaiting })
    await stage.say(web, 'x'.repeat(limits.consoleHistoryBytes))
    const end = 7 + limits.consoleHistoryBytes
    await until(
      () => viewOf(stage, web),
      (view) => view.end === end,
    )
    const { start, text } = await viewOf(stage, web, 4)
    assert.equal(start, 7)
    assert.equal(text, 'x'.repeat(limits.consoleHistoryBytes))
  })
}

function inputContract(promise: Promised): void {
  promise('typed input reaches the guest in order', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.readInput(web, true)
    for (let line = 0; line < 20; line++) await stage.type(web, lines(1, line))
    await until(
      () => stage.typed(web),
      (typed) => typed === lines(20),
      5000,
    )
    assert.equal((await viewOf(stage, web)).inputWaiting, 0)
  })

  promise(
    'input that the guest does not read waits in order, and does not delay other guests',
    async (stage) => {
      await stage.consoles().ensureMaster(web)
      await stage.consoles().ensureMaster(other)
      await stage.readInput(web, false)
      await stage.readInput(other, true)
      const typed = lines(4000)
      for (let at = 0; at < typed.length; at += 1000) await stage.type(web, typed.slice(at, at + 1000))
      await stage.type(other, 'hello')
      await until(
        () => stage.typed(other),
        (text) => text === 'hello',
        5000,
      )
      assert.ok((await viewOf(stage, web)).inputWaiting > 0)
      await stage.say(web, 'busy')
      await history(stage, web, (text) => text === 'busy')
      await stage.readInput(web, true)
      await until(
        () => stage.typed(web),
        (text) => text === typed,
        5000,
      )
      assert.equal((await viewOf(stage, web)).inputWaiting, 0)
    },
  )

  promise('a listener for room is notified once there is some', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.readInput(web, false)
    const piece = 'y'.repeat(limits.consoleInputBytesMax / 4)
    for (let sent = 0; sent < 5; sent++) await stage.type(web, piece)
    assert.ok((await viewOf(stage, web)).inputWaiting > limits.consoleInputBytesMax)
    assert.equal((await stage.heard(web))[0]?.rooms, 0)
    await stage.readInput(web, true)
    await until(
      async () => (await stage.typed(web)).length,
      (length) => length === 5 * piece.length,
    )
    await heardOf(stage, web, ({ rooms }) => rooms === 1)
  })

  promise('the terminal has the size that was set last', async (stage) => {
    await stage.consoles().ensureMaster(web)
    assert.deepEqual(await stage.window(web), { cols: 80, rows: 24 })
    await stage.resize(web, { cols: 132, rows: 50 })
    assert.deepEqual(await stage.window(web), { cols: 132, rows: 50 })
    await stage.restart()
    assert.deepEqual(await stage.window(web), { cols: 132, rows: 50 })
  })
}

function lifeContract(promise: Promised): void {
  promise('a session ends after its last output, and the next one is a different session', async (stage) => {
    await stage.consoles().ensureMaster(web)
    const { session } = await viewOf(stage, web)
    await stage.say(web, 'goodbye')
    await stage.consoles().endSession(web)
    await stage.consoles().endSession(web)
    const heard = await heardOf(stage, web, ({ unreadAtEnd }) => unreadAtEnd !== undefined)
    assert.deepEqual(heard, { session, from: 0, text: 'goodbye', unreadAtEnd: 0, rooms: 0 })
    assert.equal(await stage.view(web, 0), undefined)
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'ended' })
    assert.equal(await stage.last(web), 'goodbye')
    await stage.consoles().ensureMaster(web)
    assert.equal(await stage.last(web), '')
    const next = await viewOf(stage, web)
    assert.notEqual(next.session, session)
    assert.equal(next.end, 0)
    assert.deepEqual(
      (await stage.heard(web)).map((all) => all.session),
      [session, next.session],
    )
  })

  promise('a session continues in the next life of the daemon, with all of its history', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.say(web, lines(1000))
    await history(stage, web, (text) => text === lines(1000))
    const before = await viewOf(stage, web)
    await stage.restart()
    assert.deepEqual(await viewOf(stage, web), before)
    await stage.say(web, 'and on')
    const heard = await heardOf(stage, web, ({ text }) => text.endsWith('and on'))
    assert.equal(heard.session, before.session)
    assert.equal(heard.text, `${lines(1000)}and on`)
  })

  promise('a history that has forgotten its beginning continues at its offset', async (stage) => {
    await stage.consoles().ensureMaster(web)
    const said = lines(30_000)
    assert.ok(said.length > limits.consoleHistoryBytes)
    await stage.say(web, said)
    await until(
      () => viewOf(stage, web),
      ({ end }) => end === said.length,
    )
    const before = await viewOf(stage, web)
    await stage.restart()
    assert.deepEqual(await viewOf(stage, web), before)
    assert.equal(before.text, said.slice(-limits.consoleHistoryBytes))
  })

  promise('a session is not affected when systemd loses its console and stores it again', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.say(web, 'before ')
    await history(stage, web, (text) => text === 'before ')
    const { session } = await viewOf(stage, web)
    await stage.drop(web)
    await stage.consoles().ensureMaster(web)
    await stage.say(web, 'after')
    await history(stage, web, (text) => text === 'before after')
    assert.equal((await viewOf(stage, web)).session, session)
  })

  promise('a console that systemd does not keep has no session', async (stage) => {
    await stage.refuse(true)
    await assert.rejects(stage.consoles().ensureMaster(web))
    assert.equal(await stage.view(web, 0), undefined)
    assert.deepEqual(await stage.heard(web), [])
  })
}
