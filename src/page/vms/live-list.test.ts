import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { syncOnWire, vmOnWire } from '../../../test/vm-on-wire.ts'
import { ApiProblem } from '../../client/api-problem.ts'
import { ConnectionFailed } from '../../client/connection-failed.ts'
import { limits } from '../../config/limits.ts'
import { inventoryOf } from './inventory.ts'
import { LiveList } from './live-list.ts'
import type { TestContext } from 'node:test'
import type { VmList } from './inventory.ts'
import type { Daemon, FollowListeners, Picture, Platform } from './live-list.ts'

const problem = (code: string, status: number, retryable = false): ApiProblem =>
  new ApiProblem({
    type: '',
    title: `Title of ${code}`,
    status,
    code,
    detail: 'in words',
    retryable,
    request_id: '',
  })

/** A daemon with one VM; every change of it has the next number. */
class FakeDaemon implements Daemon {
  readonly asked: string[] = []
  revision = 5
  state: 'running' | 'stopped' = 'running'
  /** Error of the next requests, by the name of the method. */
  readonly failures = new Map<string, Error>()
  listeners: FollowListeners | undefined
  /** Answers that are given before the last changes. */
  more: VmList[] = []

  async #answer<T>(what: string, answer: () => T): Promise<T> {
    this.asked.push(what)
    const failure = this.failures.get(what.split(' ')[0] ?? '')
    if (failure !== undefined) throw failure
    return answer()
  }

  readonly #page = (): VmList => ({
    items: [vmOnWire('web-1', { observed: { state: this.state } })],
    revision: this.revision,
  })

  list = () => this.#answer('list', () => inventoryOf([this.#page()]))
  changes = (after: number) => this.#answer(`changes ${after}`, () => this.more.shift() ?? this.#page())
  sync = () => this.#answer('sync', syncOnWire)
  follow(after: number, listeners: FollowListeners): () => void {
    this.asked.push(`follow ${after}`)
    this.listeners = listeners
    return () => {
      this.asked.push('leave')
      this.listeners = undefined
    }
  }

  change(state: 'running' | 'stopped'): void {
    this.state = state
    this.revision += 1
    this.listeners?.onEvent(this.revision)
  }

  /** Returns the requests since the last call. */
  taken(): string[] {
    return this.asked.splice(0)
  }
}

type Stage = {
  readonly daemon: FakeDaemon
  readonly list: LiveList
  readonly page: { hidden: boolean; show: () => void }
  readonly picture: () => Picture
  /** Lets so much time pass, and everything that follows. */
  readonly pass: (ms: number) => Promise<void>
  readonly run: () => Promise<void>
}

function stage(t: TestContext): Stage {
  const clock = new FakeClock()
  const daemon = new FakeDaemon()
  let shown = Promise.withResolvers<void>()
  const page = {
    hidden: false,
    show() {
      page.hidden = false
      shown.resolve()
      shown = Promise.withResolvers()
    },
  }
  const platform: Platform = {
    monotonicMs: () => clock.monotonicMs(),
    epochMs: () => clock.now(),
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const cancel = clock.after(ms, resolve)
        signal.addEventListener('abort', () => {
          cancel()
          reject(signal.reason as Error)
        })
      }),
    get isHidden() {
      return page.hidden
    },
    visible: () => shown.promise,
  }
  const pictures: Picture[] = []
  const list = new LiveList(daemon, platform, (picture) => pictures.push(picture))
  const ending = new AbortController()
  t.after(() => ending.abort())
  const settle = async (): Promise<void> => {
    for (let turns = 0; turns < 5; turns += 1) await turn()
  }
  return {
    daemon,
    list,
    page,
    picture: () => pictures.at(-1) ?? assert.fail('nothing was shown'),
    async pass(ms) {
      clock.advance(ms)
      await settle()
    },
    async run() {
      list.run(ending.signal).catch((error: unknown) => assert.ok(ending.signal.aborted, String(error)))
      await settle()
    },
  }
}

const stateOf = ({ inventory }: Picture) => inventory?.vms.get('web-1')?.observed.state

test('the list and the capacity are read once, and then the events are followed from there', async (t) => {
  const { daemon, picture, run } = stage(t)
  await run()
  assert.deepEqual(daemon.taken(), ['list', 'sync', 'follow 5'])
  assert.equal(picture().status.kind, 'loading')
  daemon.listeners?.onOpen(true)
  assert.equal(picture().status.kind, 'live')
  assert.equal(stateOf(picture()), 'running')
})

test('an event makes one request for all changes, and a burst of them no more', async (t) => {
  const { daemon, picture, pass, run } = stage(t)
  await run()
  await pass(limits.hostPageRefreshMsMin)
  daemon.taken()
  daemon.change('stopped')
  await pass(0)
  assert.deepEqual(daemon.taken(), ['changes 5'])
  assert.equal(stateOf(picture()), 'stopped')
  for (let count = 0; count < 100; count += 1) daemon.change(count % 2 === 0 ? 'running' : 'stopped')
  await pass(limits.hostPageRefreshMsMin - 1)
  assert.deepEqual(daemon.taken(), [])
  await pass(1)
  assert.deepEqual(daemon.taken(), ['changes 6'])
})

test('an event that the list already has makes no request; missed events make one', async (t) => {
  const { daemon, pass, run } = stage(t)
  await run()
  daemon.taken()
  daemon.listeners?.onEvent(5)
  await pass(limits.hostPageRefreshMsMin)
  assert.deepEqual(daemon.taken(), [])
  daemon.listeners?.onEvent(0)
  await pass(0)
  assert.deepEqual(daemon.taken(), ['changes 5'])
})

test('without events the page asks from time to time', async (t) => {
  const { daemon, picture, pass, run } = stage(t)
  await run()
  daemon.taken()
  daemon.listeners?.onOpen(false)
  daemon.state = 'stopped'
  await pass(limits.hostPageAskEveryMs)
  assert.deepEqual(daemon.taken(), ['changes 5', 'sync'])
  assert.equal(stateOf(picture()), 'stopped')
  assert.equal(picture().status.kind, 'asking')
})

test('a stream of events that never answers is reported at the next look', async (t) => {
  const { picture, pass, run } = stage(t)
  await run()
  assert.equal(picture().status.kind, 'loading')
  await pass(limits.hostPageAskEveryMs)
  assert.equal(picture().status.kind, 'asking')
})

test('changes that do not fit into one answer are read to the end', async (t) => {
  const { daemon, pass, run } = stage(t)
  await run()
  daemon.taken()
  const items = Array.from({ length: limits.listItemsMax }, (_, index) => vmOnWire(`vm-${index}`))
  daemon.more = [{ items, revision: 8 }]
  daemon.change('stopped')
  await pass(limits.hostPageRefreshMsMin)
  assert.deepEqual(daemon.taken(), ['changes 5', 'changes 8'])
})

test('if the changes are not kept any more, the whole list is read again', async (t) => {
  const { daemon, picture, pass, run } = stage(t)
  await run()
  daemon.taken()
  daemon.failures.set('changes', problem('changes_not_kept', 410))
  daemon.change('stopped')
  await pass(limits.hostPageRefreshMsMin)
  assert.deepEqual(daemon.taken(), ['changes 5', 'list'])
  assert.equal(stateOf(picture()), 'stopped')
})

test('a daemon that is away is asked again, less often, and what is known stays', async (t) => {
  const { daemon, picture, pass, run } = stage(t)
  await run()
  daemon.taken()
  daemon.failures.set('changes', new ConnectionFailed('unreachable', 'the host does not answer'))
  daemon.listeners?.onEvent(0)
  await pass(limits.hostPageRefreshMsMin)
  assert.deepEqual(picture().status, { kind: 'away', because: 'The host does not answer' })
  assert.equal(stateOf(picture()), 'running')
  assert.deepEqual(daemon.taken(), ['changes 5', 'leave'])
  await pass(limits.hostPageRefreshMsMin)
  assert.deepEqual(daemon.taken(), ['changes 5'])
  daemon.failures.clear()
  await pass(limits.clientReconnectMsMax)
  assert.deepEqual(daemon.taken().slice(0, 2), ['changes 5', 'follow 5'])
  assert.equal(picture().status.kind, 'loading')
})

test('a host that cannot be inspected has a list all the same', async (t) => {
  const { daemon, picture, run } = stage(t)
  daemon.failures.set('sync', problem('capacity_unknown', 503, true))
  await run()
  assert.equal(picture().trouble, 'in words')
  assert.equal(picture().sync, undefined)
  assert.equal(stateOf(picture()), 'running')
})

test('a refusal ends the asking; on request the page tries again', async (t) => {
  const { daemon, picture, pass, run } = stage(t)
  daemon.failures.set('list', problem('role_required', 403))
  await run()
  assert.deepEqual(picture().status, {
    kind: 'refused',
    code: 'role_required',
    title: 'Title of role_required',
    detail: 'In words',
  })
  daemon.taken()
  await pass(60_000)
  assert.deepEqual(daemon.taken(), [])
  daemon.failures.clear()
  await run()
  assert.equal(stateOf(picture()), 'running')
})

test('a click right after each refusal leaves one loop', async (t) => {
  const { daemon, picture, pass, run } = stage(t)
  for (let clicks = 0; clicks < 3; clicks += 1) {
    daemon.failures.set('list', problem('role_required', 403))
    await run()
    assert.equal(picture().status.kind, 'refused')
  }
  daemon.failures.clear()
  await run()
  daemon.listeners?.onOpen(true)
  daemon.taken()
  await pass(limits.hostPageAskEveryMs)
  assert.deepEqual(daemon.taken(), ['changes 5', 'sync'])
})

test('a hidden page asks for nothing, and is current soon after it is seen again', async (t) => {
  const { daemon, list, page, picture, pass, run } = stage(t)
  await run()
  page.hidden = true
  list.leave()
  await pass(limits.hostPageAskEveryMs)
  daemon.taken()
  daemon.change('stopped')
  await pass(10 * limits.hostPageAskEveryMs)
  assert.deepEqual(daemon.taken(), [])
  page.show()
  list.poke()
  await pass(0)
  assert.deepEqual(daemon.taken(), ['changes 5', 'sync', 'follow 6'])
  assert.equal(stateOf(picture()), 'stopped')
})
