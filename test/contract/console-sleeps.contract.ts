import assert from 'node:assert/strict'
import { limits } from '../../src/config/limits.ts'
import { HostFault } from '../../src/core/errors.ts'
import { until } from './until.ts'
import { heardOf, history, other, third, viewOf, web } from './consoles-stage.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Promised } from './console-sessions.contract.ts'

/** Promises of every implementation of consoles about sessions whose VM sleeps, and about places in the store. */
export function sleepContract(promise: Promised): void {
  outputContract(promise)
  endContract(promise)
  terminalContract(promise)
  heldInputContract(promise)
  placesContract(promise)
}

function outputContract(promise: Promised): void {
  promise('a session continues without a terminal, and no byte of it is lost or doubled', async (stage) => {
    const consoles = stage.consoles()
    await consoles.ensureMaster(web)
    await stage.say(web, 'before, ')
    await consoles.removeMaster(web)
    await consoles.removeMaster(web)
    assert.deepEqual(await consoles.inspect(web), { kind: 'detached' })
    assert.deepEqual(await consoles.stored(), [])
    assert.deepEqual(await consoles.list(), [web])
    const { session, text } = await viewOf(stage, web)
    assert.equal(text, 'before, ')
    await consoles.ensureMaster(web)
    assert.equal((await consoles.inspect(web)).kind, 'stored')
    await stage.say(web, 'after')
    const heard = await heardOf(stage, web, (all) => all.text.endsWith('after'))
    assert.deepEqual(heard, { session, from: 0, text: 'before, after', rooms: 0 })
  })

  promise('a session without a terminal continues in the next life of the daemon', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.say(web, 'before, ')
    await stage.consoles().removeMaster(web)
    const { session } = await viewOf(stage, web)
    assert.equal(await stage.restart(), 0)
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'detached' })
    assert.equal((await viewOf(stage, web)).text, 'before, ')
    await stage.consoles().ensureMaster(web)
    await stage.say(web, 'after')
    await history(stage, web, (text) => text === 'before, after')
    assert.equal((await viewOf(stage, web)).session, session)
  })
}

function endContract(promise: Promised): void {
  promise('the output of the last session is there in the next life of the daemon', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.say(web, 'panic')
    await stage.consoles().endSession(web)
    await stage.restart()
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'ended' })
    assert.equal(await stage.view(web, 0), undefined)
    assert.equal(await stage.last(web), 'panic')
    await stage.consoles().ensureMaster(web)
    assert.equal(await stage.last(web), '')
  })

  promise('a session that has no terminal can end, and its output stays', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.say(web, 'asleep')
    await stage.consoles().removeMaster(web)
    await stage.consoles().endSession(web)
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'ended' })
    const { unreadAtEnd } = await heardOf(stage, web, (heard) => heard.unreadAtEnd !== undefined)
    assert.equal(unreadAtEnd, 0)
    assert.equal(await stage.last(web), 'asleep')
  })
}

function terminalContract(promise: Promised): void {
  promise('input typed without a terminal reaches the next one, after all earlier input', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.readInput(web, false)
    await stage.type(web, 'one ')
    await stage.consoles().removeMaster(web)
    await stage.type(web, 'two ')
    assert.equal((await viewOf(stage, web)).inputWaiting, 'one two '.length)
    await stage.restart()
    assert.equal((await viewOf(stage, web)).inputWaiting, 'one two '.length)
    await stage.type(web, 'three ')
    await stage.consoles().ensureMaster(web)
    await stage.readInput(web, true)
    await stage.type(web, 'four')
    await stage.passInput(web)
    await until(
      () => stage.typed(web),
      (typed) => typed === 'one two three four',
      5000,
    )
    await stage.consoles().removeMaster(web)
    assert.equal((await viewOf(stage, web)).inputWaiting, 0)
    await stage.restart()
    assert.equal((await viewOf(stage, web)).inputWaiting, 0, 'delivered input waits no longer')
  })
}

function heldInputContract(promise: Promised): void {
  promise('a session that continues passes no input before the guest is there', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.consoles().removeMaster(web)
    await stage.type(web, 'asleep ')
    await stage.consoles().ensureMaster(web)
    await stage.consoles().ensureMaster(web)
    await stage.readInput(web, true)
    await stage.type(web, 'being restored ')
    assert.equal((await viewOf(stage, web)).inputWaiting, 'asleep being restored '.length)
    assert.equal(await stage.typed(web), '')
    await stage.passInput(web)
    await stage.type(web, 'awake')
    await until(
      () => stage.typed(web),
      (typed) => typed === 'asleep being restored awake',
      5000,
    )
    assert.equal((await viewOf(stage, web)).inputWaiting, 0)
  })

  promise('input beyond the bound is held back until a terminal has taken some of it', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.readInput(web, false)
    await stage.consoles().removeMaster(web)
    await stage.type(web, 'y'.repeat(limits.consoleInputBytesMax + 1))
    assert.ok((await viewOf(stage, web)).inputWaiting > limits.consoleInputBytesMax)
    assert.equal((await stage.heard(web))[0]?.rooms, 0)
    await stage.consoles().ensureMaster(web)
    await stage.readInput(web, true)
    await stage.passInput(web)
    await heardOf(stage, web, ({ rooms }) => rooms === 1)
  })

  promise('input typed before the end of a session is not typed into the next', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.consoles().removeMaster(web)
    await stage.type(web, 'for the guest that ended')
    await stage.consoles().endSession(web)
    await stage.restart()
    await stage.consoles().ensureMaster(web)
    assert.equal((await viewOf(stage, web)).inputWaiting, 0)
    await stage.readInput(web, true)
    await stage.type(web, 'new')
    await until(
      () => stage.typed(web),
      (typed) => typed === 'new',
      5000,
    )
  })

  promise('the next terminal has the size that was set last in the session', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.resize(web, { cols: 132, rows: 50 })
    await stage.consoles().removeMaster(web)
    await stage.restart()
    await stage.consoles().ensureMaster(web)
    assert.deepEqual(await stage.window(web), { cols: 132, rows: 50 })
    await stage.consoles().removeMaster(web)
    await stage.resize(web, { cols: 100, rows: 40 })
    await stage.consoles().ensureMaster(web)
    assert.deepEqual(await stage.window(web), { cols: 100, rows: 40 })
  })
}

function placesContract(promise: Promised): void {
  promise(
    'a VM without a free place is reported separately, and a place that is given up serves others',
    async (stage) => {
      await stage.limit(1)
      const consoles = stage.consoles()
      await consoles.ensureMaster(web)
      await assert.rejects(consoles.ensureMaster(other), (error) => {
        assert.ok(error instanceof HostFault)
        assert.equal(error.code, 'no_console_place')
        return true
      })
      assert.deepEqual(await consoles.list(), [web])
      await consoles.removeMaster(web)
      await consoles.ensureMaster(other)
      const before = await viewOf(stage, web)
      await assert.rejects(consoles.ensureMaster(web), HostFault)
      assert.deepEqual(await consoles.inspect(web), { kind: 'detached' })
      assert.deepEqual(await viewOf(stage, web), before)
    },
  )

  promise('a free place is offered to the VM that has waited longest', async (stage) => {
    await stage.limit(1)
    const consoles = stage.consoles()
    const refused = (id: VmId): Promise<void> => assert.rejects(consoles.ensureMaster(id), HostFault)
    await consoles.ensureMaster(web)
    await refused(other)
    await refused(third)
    await consoles.removeMaster(web)
    assert.deepEqual(await stage.offered(), [other])
    await consoles.ensureMaster(web)
    await consoles.endSession(web)
    assert.deepEqual(await stage.offered(), [other, third], 'each VM is offered once')
    await consoles.ensureMaster(web)
    await refused(other)
    await consoles.endSession(other)
    await consoles.removeMaster(web)
    assert.deepEqual(await stage.offered(), [other, third], 'a stopped VM waits no longer')
    await consoles.ensureMaster(web)
    await refused(third)
    await refused(other)
    await consoles.removeMaster(web)
    await consoles.ensureMaster(other)
    await consoles.endSession(third)
    assert.deepEqual(await stage.offered(), [other, third, third], 'a VM with a place waits no longer')
  })
}
