import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../src/config/limits.ts'
import { atEnd } from '../contract/at-end.ts'
import { endChild } from '../contract/child.ts'
import { TerminalGuest } from '../contract/terminal-guest.ts'
import { until } from '../contract/until.ts'
import { ConsoleService, systemctl } from './console-service.ts'
import { saidBetween } from './console-writer.ts'
import { skip } from './in-lab.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import type { SessionView } from '../contract/consoles-stage.ts'

const web = 'web-1' as VmId
const KILLS = 20
/** Bytes by which a writer may be ahead of its reader, so that none of them is forgotten meanwhile. */
const AHEAD_BYTES = limits.consoleHistoryBytes - 1024

const service = new ConsoleService()
after(() => skip === false && service.remove())

/** Makes a fresh console, and returns the path of its terminal. */
async function consoleFor(t: TestContext): Promise<string> {
  await service.install({}, true)
  atEnd(t, async () => {
    await systemctl('start', service.name)
    await service.consoles.remove(web)
  })
  return service.consoles.ensureMaster(web)
}

type Writer = { allow(bytes: number): void; end(): Promise<void> }

function writerOn(t: TestContext, path: string): Writer {
  const program = `${import.meta.dirname}/console-writer.ts`
  const child = spawn(process.execPath, [program, path], { stdio: ['pipe', 'inherit', 'inherit'] })
  const exit = once(child, 'exit')
  atEnd(t, () => endChild(child))
  return {
    allow: (bytes) => void child.stdin.write(`${bytes}\n`),
    end: async () => {
      child.stdin.end()
      const [status] = await exit
      assert.equal(status, 0)
    },
  }
}

/** A viewer that returns with its session and cursor after each death of the daemon. */
class Reader {
  session = ''
  cursor = 0

  /**
   * Reads the available output, unless the daemon is dead at the moment. Throws if a byte is missing, doubled or wrong.
   */
  async read(): Promise<void> {
    const view = await this.#ask()
    if (view === undefined) return
    if (this.session === '') this.session = view.session
    assert.equal(view.session, this.session)
    assert.equal(view.start, this.cursor)
    const said = saidBetween(this.cursor, view.end)
    const wrong = Buffer.from(view.text).findIndex((byte, at) => byte !== said.charCodeAt(at))
    if (view.text !== said)
      assert.fail(`byte ${wrong} after ${this.cursor} of ${view.end} is not what was said`)
    this.cursor = view.end
  }

  async #ask(): Promise<SessionView | undefined> {
    try {
      return await service.view(web, this.cursor)
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error
      await delay(5)
      return undefined
    }
  }
}

/** Kills a process at a random moment in the near future. */
function killSoon(pid: number): { isOver(): boolean } {
  let over = false
  setTimeout(() => {
    process.kill(pid, 'SIGKILL')
    over = true
  }, Math.random() * 40)
  return { isOver: () => over }
}

const mainPid = async (): Promise<number> => Number(await service.property('MainPID'))

test(
  'no byte is lost or doubled, however often the daemon is killed while a guest writes',
  { skip },
  async (t) => {
    const path = await consoleFor(t)
    const writer = writerOn(t, path)
    const reader = new Reader()
    let allowed = 0
    const readOn = async (): Promise<void> => {
      await reader.read()
      allowed = reader.cursor + AHEAD_BYTES
      writer.allow(allowed)
    }
    for (let kill = 0; kill < KILLS; kill++) {
      const pid = await mainPid()
      const from = reader.cursor
      await until(readOn, () => reader.cursor > from)
      const death = killSoon(pid)
      while (!death.isOver()) await readOn()
      await until(mainPid, (other) => other !== 0 && other !== pid)
    }
    await writer.end()
    await until(
      () => reader.read(),
      () => reader.cursor === allowed,
    )
    assert.ok(allowed > KILLS * 4096)
  },
)

test(
  'output of a guest while the daemon is stopped is there afterwards, as far as the pty holds it',
  { skip },
  async (t) => {
    const guest = new TerminalGuest(await consoleFor(t))
    atEnd(t, () => guest.close())
    await guest.say('before ')
    await until(
      () => service.view(web, 0),
      (view) => view?.text === 'before ',
    )
    await systemctl('stop', service.name)
    const said = guest.sayAsMuchAsFits(saidBetween(0, 1024 * 1024))
    assert.ok(said >= 4096, `the pty held ${said} bytes`)
    await systemctl('start', service.name)
    await guest.say(' after')
    const text = `before ${saidBetween(0, said)} after`
    const view = await until(
      () => service.view(web, 0),
      (seen) => seen?.end === text.length,
    )
    assert.equal(view?.text, text)
  },
)

test('a guest that waited for the stopped daemon continues when the daemon is back', { skip }, async (t) => {
  const writer = writerOn(t, await consoleFor(t))
  await systemctl('stop', service.name)
  writer.allow(AHEAD_BYTES)
  const ended = writer.end()
  await systemctl('start', service.name)
  await ended
  const reader = new Reader()
  await until(
    () => reader.read(),
    () => reader.cursor === AHEAD_BYTES,
  )
})
