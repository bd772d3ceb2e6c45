import assert from 'node:assert/strict'
import { limits } from '../../src/config/limits.ts'
import { planReplay } from '../../src/core/console/ring.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { MovedConsole } from '../../src/ports/consoles.ts'
import { heardOf, history, other, third, viewOf, web } from './consoles-stage.ts'
import type { Promised } from './console-sessions.contract.ts'
import type { ConsolesStage } from './consoles-stage.ts'

/**
 * Promises of every implementation of consoles about sessions that come from another host. Here `web` is the VM there,
 * and `other` the same VM here.
 */
export function consoleMovesContract(promise: Promised): void {
  promiseViewers(promise)
  promiseOutput(promise)
  promiseRepetition(promise)
}

async function movedOf(stage: ConsolesStage, id: VmId): Promise<MovedConsole> {
  const moved = await stage.moved(id)
  assert.ok(moved !== undefined, `there is no session of ${id}`)
  return moved
}

/** The VM says that, and falls asleep. */
async function slept(stage: ConsolesStage, said: string): Promise<MovedConsole> {
  await stage.consoles().ensureMaster(web)
  await stage.say(web, said)
  await stage.consoles().removeMaster(web)
  return movedOf(stage, web)
}

function promiseViewers(promise: Promised): void {
  promise('a viewer continues at the other host where it had stopped', async (stage) => {
    const consoles = stage.consoles()
    const moved = await slept(stage, 'login: ')
    const { session, end: cursor } = await viewOf(stage, web)
    await consoles.adoptHistory(other, moved)
    assert.deepEqual(await consoles.inspect(other), { kind: 'detached' })
    await consoles.ensureMaster(other)
    await stage.say(other, 'root')
    await history(stage, other, (text) => text === 'login: root')
    const there = await viewOf(stage, other, cursor)
    const replay = planReplay({ ...there, id: there.session }, { cursor, session })
    assert.deepEqual(replay, { from: cursor, lostBytes: 0 })
    assert.equal(there.text, 'root')
    const heard = await heardOf(stage, other, ({ text }) => text.endsWith('root'))
    assert.deepEqual(heard, { session, from: 0, text: 'login: root', rooms: 0 })
  })

  promise('the next terminal of a session that has moved has its window', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.resize(web, { cols: 132, rows: 50 })
    await stage.consoles().adoptHistory(other, await movedOf(stage, web))
    await stage.restart()
    await stage.consoles().ensureMaster(other)
    assert.deepEqual(await stage.window(other), { cols: 132, rows: 50 })
  })

  promise('input for a session that has moved reaches its next terminal', async (stage) => {
    await stage.consoles().adoptHistory(other, await slept(stage, ''))
    await stage.type(other, 'typed early')
    assert.equal((await viewOf(stage, other)).inputWaiting, 'typed early'.length)
  })
}

function promiseOutput(promise: Promised): void {
  promise('a long output moves as far as it is kept, and offsets stay', async (stage) => {
    const said = Array.from({ length: 60_000 }, (_, line) => `${line}\n`).join('')
    const moved = await slept(stage, said)
    await stage.consoles().adoptHistory(other, moved)
    const [from, to] = [await viewOf(stage, web), await viewOf(stage, other)]
    assert.deepEqual(to, from)
    assert.equal(to.text, said.slice(-limits.consoleHistoryBytes))
    await stage.restart()
    assert.deepEqual(await viewOf(stage, other), from)
    assert.deepEqual(await movedOf(stage, other), moved)
    await stage.consoles().ensureMaster(other)
    await stage.say(other, 'the end')
    await history(stage, other, (text) => text === `${said}the end`.slice(-limits.consoleHistoryBytes))
  })

  promise('output that was not sent along is missing, and nothing takes its place', async (stage) => {
    const moved = { ...(await slept(stage, '')), end: 1_000_000, output: Buffer.from('tail') }
    await stage.consoles().adoptHistory(other, moved)
    for (const life of ['this', 'the next']) {
      const { start, end, text } = await viewOf(stage, other)
      assert.deepEqual({ start, end, text }, { start: 999_996, end: 1_000_000, text: 'tail' }, `${life} life`)
      await stage.restart()
    }
    await stage.consoles().ensureMaster(other)
    await stage.say(other, ' and more')
    await history(stage, other, (text) => text === 'tail and more')
    assert.equal((await viewOf(stage, other)).start, 999_996)
  })

  promise(
    'a VM without a console has no session to move, and one that is over has its output',
    async (stage) => {
      assert.equal(await stage.moved(web), undefined)
      await stage.consoles().ensureMaster(web)
      await stage.say(web, 'panic')
      await stage.consoles().endSession(web)
      assert.equal(Buffer.from((await movedOf(stage, web)).output).toString(), 'panic')
      await stage.consoles().remove(web)
      assert.equal(await stage.moved(web), undefined)
    },
  )
}

function promiseRepetition(promise: Promised): void {
  promise('adopting a session again changes nothing, whatever has become of it', async (stage) => {
    const moved = await slept(stage, 'before, ')
    const again = () => stage.consoles().adoptHistory(other, moved)
    const text = async () => (await viewOf(stage, other)).text
    await again()
    await again()
    assert.equal(await text(), 'before, ')
    await stage.consoles().ensureMaster(other)
    await stage.say(other, 'after')
    await history(stage, other, (all) => all === 'before, after')
    await again()
    assert.equal((await stage.consoles().inspect(other)).kind, 'stored')
    await stage.consoles().removeMaster(other)
    await again()
    assert.equal(await text(), 'before, after')
    await stage.consoles().endSession(other)
    await again()
    assert.deepEqual(await stage.consoles().inspect(other), { kind: 'ended' })
    assert.equal(await stage.last(other), 'before, after')
  })

  promise('a session of another host replaces one that is over, and no other', async (stage) => {
    const moved = await slept(stage, 'from there')
    for (const id of [other, third]) {
      await stage.consoles().ensureMaster(id)
      await stage.say(id, 'from here')
      await history(stage, id, (text) => text === 'from here')
    }
    await stage.consoles().endSession(other)
    await stage.consoles().removeMaster(third)
    for (const id of [other, third]) await stage.consoles().adoptHistory(id, moved)
    assert.equal((await viewOf(stage, other)).text, 'from there')
    assert.equal((await viewOf(stage, other)).session, moved.session)
    assert.equal((await viewOf(stage, third)).text, 'from here')
  })
}
