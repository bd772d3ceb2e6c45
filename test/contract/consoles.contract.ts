import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { HostFault } from '../../src/core/errors.ts'
import { sessionsContract } from './console-sessions.contract.ts'
import { consoleMovesContract } from './console-moves.contract.ts'
import { sleepContract } from './console-sleeps.contract.ts'
import { history, other, viewOf, web } from './consoles-stage.ts'
import type { TestContext } from 'node:test'
import type { ConsolesStage } from './consoles-stage.ts'
import type { ConsoleState } from '../../src/core/world/world.ts'

const isUnprotected = (error: unknown): boolean =>
  error instanceof HostFault && (error.code === 'console_unprotected' || error.code === 'no_console_place')

const pathOf = (state: ConsoleState): string | undefined =>
  state.kind === 'stored' ? state.ptsPath : undefined

/** Promises of every implementation of consoles; `set` makes a stage and registers its own clean-up. */
export function consolesContract(
  name: string,
  set: (t: TestContext) => Promise<ConsolesStage> | ConsolesStage,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: ConsolesStage) => Promise<void>): void => {
    test(`${name}: ${what}`, { skip: options.skip ?? false }, async (t) => body(await set(t)))
  }

  sessionsContract(promise)
  sleepContract(promise)
  consoleMovesContract(promise)

  promise('a console that was never made is absent', async (stage) => {
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'absent' })
    assert.deepEqual(await stage.consoles().list(), [])
    assert.equal(await stage.view(web, 0), undefined)
  })

  promise('a console is made, stored and listed', async (stage) => {
    const ptsPath = await stage.consoles().ensureMaster(web)
    assert.match(ptsPath, /^\/dev\/pts\/\d+$/)
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'stored', ptsPath })
    assert.deepEqual(await stage.consoles().list(), [web])
    assert.deepEqual(await stage.consoles().stored(), [web])
  })

  promise('ensuring a console again gives the same terminal', async (stage) => {
    const ptsPath = await stage.consoles().ensureMaster(web)
    assert.equal(await stage.consoles().ensureMaster(web), ptsPath)
    assert.deepEqual(await stage.consoles().list(), [web])
  })

  promise('each VM has a terminal of its own', async (stage) => {
    const paths = await Promise.all([
      stage.consoles().ensureMaster(web),
      stage.consoles().ensureMaster(other),
    ])
    assert.notEqual(paths[0], paths[1])
    assert.deepEqual((await stage.consoles().list()).toSorted(), [web, other])
    await stage.say(web, 'from web')
    await history(stage, web, (text) => text === 'from web')
    assert.equal((await viewOf(stage, other)).end, 0)
  })

  promise('the newest output is kept, up to the limit', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.say(web, 'x'.repeat(limits.consoleHistoryBytes))
    await stage.say(web, 'the end')
    const text = await history(stage, web, (all) => all.endsWith('the end'))
    assert.equal(text.length, limits.consoleHistoryBytes)
  })

  promise('a removed console is absent and its output gone; removal can be repeated', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.consoles().ensureMaster(other)
    await stage.say(web, 'hello')
    await history(stage, web, (text) => text === 'hello')
    await stage.consoles().remove(web)
    await stage.consoles().remove(web)
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'absent' })
    assert.equal(await stage.view(web, 0), undefined)
    assert.equal(await stage.last(web), undefined)
    assert.deepEqual(await stage.consoles().list(), [other])
    await stage.consoles().ensureMaster(web)
    assert.equal((await stage.consoles().inspect(web)).kind, 'stored')
  })

  promise(
    'a console that systemd does not keep counts as absent, and leaves nothing behind',
    async (stage) => {
      await stage.refuse(true)
      await assert.rejects(stage.consoles().ensureMaster(web), isUnprotected)
      assert.deepEqual(await stage.consoles().inspect(web), { kind: 'absent' })
      assert.deepEqual(await stage.consoles().list(), [])
      await stage.refuse(false)
      await stage.consoles().ensureMaster(web)
      assert.equal((await stage.consoles().inspect(web)).kind, 'stored')
    },
  )

  promise('a console that systemd lost is unstored, and is stored again as it is', async (stage) => {
    const ptsPath = await stage.consoles().ensureMaster(web)
    await stage.drop(web)
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'unstored' })
    assert.deepEqual(await stage.consoles().stored(), [])
    assert.equal(await stage.consoles().ensureMaster(web), ptsPath)
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'stored', ptsPath })
  })

  promise('an unstored console that cannot be stored stays as it is', async (stage) => {
    const ptsPath = await stage.consoles().ensureMaster(web)
    await stage.drop(web)
    await stage.refuse(true)
    await assert.rejects(stage.consoles().ensureMaster(web), isUnprotected)
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'unstored' })
    await stage.refuse(false)
    assert.equal(await stage.consoles().ensureMaster(web), ptsPath)
  })

  promise('the next life of the daemon has the same consoles, and continues to read them', async (stage) => {
    const before = [await stage.consoles().ensureMaster(web), await stage.consoles().ensureMaster(other)]
    assert.equal(await stage.restart(), 2)
    const after = [await stage.consoles().inspect(web), await stage.consoles().inspect(other)]
    assert.deepEqual(after.map(pathOf), before)
    await stage.say(web, 'still here')
    await history(stage, web, (text) => text === 'still here')
    await stage.consoles().remove(web)
    assert.deepEqual(await stage.consoles().list(), [other])
  })

  promise('a removed console does not come back in the next life', async (stage) => {
    await stage.consoles().ensureMaster(web)
    await stage.consoles().remove(web)
    assert.equal(await stage.restart(), 0)
    assert.deepEqual(await stage.consoles().inspect(web), { kind: 'absent' })
  })
}
