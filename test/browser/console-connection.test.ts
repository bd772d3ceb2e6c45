/**
 * How the console page keeps its connection and says how it stands, in a real browser: over the real listener unless a
 * test says otherwise.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { until } from '../contract/until.ts'
import { skip } from './support/browser.ts'
import { consoleStages, VM } from './support/console-stage.ts'
import { openConsole } from './support/console-tab.ts'
import type { ObservedState } from '../../src/core/vm/record.ts'
import type { Visit } from './support/browser.ts'

const stage = consoleStages()

test('a connection that died silently is found by its silence, and is made again', { skip }, async (t) => {
  const { host, visited } = await stage(t)
  const link = await cuttableLink(visited)
  host.host.consoles.say(VM, 'before;')
  const tab = await openConsole(visited, VM)
  await tab.shows('before;')
  await link.outlives()
  await tab.isIn('attached')
  link.dead = true
  host.host.consoles.say(VM, 'unheard;')
  await link.isGivenUp()
  await tab.isIn('away')
  link.dead = false
  await tab.shows('before;unheard;')
  await tab.isIn('attached')
  assert.deepEqual(visited.complaints, [])
})

test('a connection that dies while the page waits for a start is found too', { skip }, async (t) => {
  const { host, visited } = await stage(t, { running: false })
  const link = await cuttableLink(visited)
  const tab = await openConsole(visited, VM)
  await tab.isIn('waiting')
  await link.outlives()
  await tab.isIn('waiting')
  link.dead = true
  await host.host.consoles.ensureMaster(VM)
  host.host.consoles.say(VM, 'Linux version')
  await link.isGivenUp()
  await tab.isIn('away')
  link.dead = false
  await tab.shows('Linux version')
  assert.deepEqual(visited.complaints, [])
})

test('a VM that sleeps is said to sleep, and what is typed waits for it', { skip }, async (t) => {
  const { host, visited } = await stage(t)
  const tab = await openConsole(visited, VM)
  await tab.isIn('attached')
  const size = await tab.size()
  const observe = (state: ObservedState): void =>
    void host.store.vms.recordProgress(VM, { observed: { state, sinceMs: 1000 }, nowMs: 2000 })
  const says = (words: string) => tab.status.filter({ hasText: words }).waitFor()
  observe('sleeping')
  await says('The VM sleeps. Typed input waits')
  assert.deepEqual(await tab.size(), size)
  assert.equal(await visited.page.title(), `${VM} · sleeping`)
  await tab.type('ls')
  await until(
    () => host.host.consoles.session(VM)?.terminal.typed,
    (typed) => typed === 'ls',
  )
  observe('running')
  await says('Attached')
  assert.deepEqual(visited.complaints, [])
})

test('a connection that is never established is given up, and is made again', { skip }, async (t) => {
  const { visited } = await stage(t)
  const link = await cuttableLink(visited)
  link.closed = true
  const tab = await openConsole(visited, VM)
  await until(
    () => link.made,
    (made) => made === 1,
  )
  await link.isGivenUp()
  await tab.isIn('away')
  link.closed = false
  // The next connection may have begun before the link was open.
  await link.isGivenUp()
  await tab.isIn('attached')
})

/** The page asks, asks once more, and gives the connection up when it would ask again. */
const ASKS_UNTIL_GIVEN_UP = 3

type Link = {
  /** Whether messages from the daemon are lost on the way. */
  dead: boolean
  /** Whether no connection can be established. */
  closed: boolean
  made: number
  heard: number
  /** Fails unless the page keeps this connection for as long as it would keep a dead one. */
  outlives(): Promise<void>
  /** Lets as much time pass in the page as a dead connection gets. */
  isGivenUp(): Promise<void>
}

/** Controls the path from the page to the daemon, and the clock of the page, which also runs by itself. */
async function cuttableLink({ page }: Visit): Promise<Link> {
  await page.clock.install()
  const link: Link = {
    dead: false,
    closed: false,
    made: 0,
    heard: 0,
    async outlives() {
      for (let asks = 0; asks < ASKS_UNTIL_GIVEN_UP; asks += 1) {
        const { heard } = link
        await page.clock.runFor(limits.consolePingMs)
        await until(
          () => link.heard,
          (now) => now > heard,
        )
      }
      assert.equal(link.made, 1)
    },
    async isGivenUp() {
      for (let asks = 0; asks < ASKS_UNTIL_GIVEN_UP; asks += 1) await page.clock.runFor(limits.consolePingMs)
    },
  }
  await page.routeWebSocket(/console/, async (socket) => {
    link.made++
    if (link.closed) await new Promise(() => {})
    socket.connectToServer().onMessage((message) => {
      if (link.dead) return
      link.heard++
      socket.send(message)
    })
  })
  return link
}

test(
  'history that was lost before it arrived is not waited for: later input reaches the guest',
  { skip },
  async (t) => {
    const { visited } = await stage(t)
    const typed: string[] = []
    let lost = 0
    // A daemon that keeps less of the history than it promised to the previous connection.
    await visited.page.routeWebSocket(/console/, (socket) => {
      const session = '00000000000000ab'
      const place = { mode: 'tty', session, cursor: lost, replay_bytes: 1000 - lost, lost_bytes: lost }
      socket.onMessage((message) => {
        if (typeof message !== 'string') typed.push(message.toString())
      })
      socket.send(JSON.stringify({ attached: place }))
      if (lost === 0) void socket.close({ code: 1001, reason: 'daemon_stops' })
      lost = 1000
    })
    const tab = await openConsole(visited, VM)
    await tab.shows('1000 bytes of output are missing here')
    await tab.isIn('attached')
    await tab.type('x')
    await until(
      () => typed,
      (all) => all.join('') === 'x',
    )
  },
)
