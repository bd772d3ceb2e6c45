import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeConsoles } from '../../../test/fakes/fake-consoles.ts'
import { FakeViewer } from '../../../test/fakes/fake-viewer.ts'
import { limits } from '../../config/limits.ts'
import { given } from '../../lib/given.ts'
import { ConsoleHub } from './console-hub.ts'
import type { FakeSession } from '../../../test/fakes/fake-session.ts'
import type { VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { DesiredPower } from '../../core/desired.ts'
import type { Grace, ObservedState, VmRecord } from '../../core/vm/record.ts'

const web = 'web-1' as VmId

/** A hub over one VM whose console is open. */
async function stage() {
  const consoles = new FakeConsoles()
  const store = {
    deleting: false,
    isGone: false,
    state: 'running' as ObservedState,
    saved: {} as Pick<VmRecord['observed'], 'savedState'>,
    power: 'running' as DesiredPower,
    grace: undefined as Grace | undefined,
    departure: {} as { departure?: Departure },
    changed: (_id: VmId): void => {},
    vms: {
      get: () =>
        store.isGone
          ? undefined
          : {
              deleting: store.deleting,
              ...store.departure,
              observed: { state: store.state, ...store.saved },
              desired: { power: store.power },
              stops: given({ grace: store.grace }),
            },
    },
    onVmChange(listener: (id: VmId) => void) {
      store.changed = listener
      return () => {}
    },
  }
  const hub = new ConsoleHub({ consoles, store })
  await consoles.ensureMaster(web)
  const session = consoles.session(web)
  assert.ok(session !== undefined)
  const watch = (follow = false): FakeViewer => {
    const viewer = new FakeViewer()
    hub.watch(web, viewer, { follow })
    return viewer
  }
  /** Records states of the VM, one after the other. */
  const observe = (...states: ObservedState[]): void => {
    for (const state of states) {
      store.state = state
      store.changed(web)
    }
  }
  return { consoles, store, hub, session, watch, observe }
}

const say = (session: FakeSession, text: string): void => session.say(Buffer.from(text))

/** Waits until the event loop has passed on what is due. */
const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 3; turn += 1) await new Promise(setImmediate)
}

test('output of one turn is copied once and sent to all viewers as one', async () => {
  const { session, watch } = await stage()
  const viewers = [watch(), watch(), watch()]
  say(session, 'one ')
  say(session, 'two')
  await turns()
  const [first] = viewers.map(({ outputs }) => outputs)
  assert.equal(first?.length, 1)
  assert.equal(viewers[0]?.text, 'one two')
  for (const { outputs } of viewers) assert.equal(outputs[0], first?.[0])
})

test('a viewer that comes between the output and its turn gets it once', async () => {
  const { session, watch } = await stage()
  const early = watch()
  say(session, 'abc')
  const late = watch()
  assert.equal(early.text, 'abc')
  await turns()
  assert.deepEqual([early.text, late.text], ['abc', 'abc'])
  say(session, 'def')
  await turns()
  assert.deepEqual([early.text, late.text], ['abcdef', 'abcdef'])
})

test('a viewer that is closed costs nothing from then on', async () => {
  const { session, watch } = await stage()
  const [open, shut] = [watch(), watch()]
  shut.close('viewer_behind')
  say(session, '12345')
  await turns()
  assert.equal(session.spent, 5)
  assert.equal(open.text, '12345')
  assert.deepEqual(shut.outputs, [])
})

test('a viewer that waits for a VM from another host continues where it had stopped there', async () => {
  const { consoles, hub } = await stage()
  const other = 'web-2' as VmId
  const session = '00000000000000ab'
  const wait = (stoppedAt: { cursor: number; session?: string }): FakeViewer => {
    const viewer = new FakeViewer()
    hub.watch(other, viewer, { follow: true, stoppedAt })
    return viewer
  }
  const [mine, ofAnother, unknown] = [
    wait({ cursor: 107, session }),
    wait({ cursor: 107, session: '00000000000000cd' }),
    wait({ cursor: 107 }),
  ]
  const window = { cols: 80, rows: 24 }
  await consoles.adoptHistory(other, { session, end: 110, window, output: Buffer.from('login: root') })
  await consoles.ensureMaster(other)
  consoles.say(other, '!')
  await turns()
  assert.deepEqual([mine.text, ofAnother.text, unknown.text], ['oot!', 'login: root!', 'login: root!'])
})

test('output that was overwritten before it could be passed on is reported as lost', async () => {
  const { session, watch } = await stage()
  const viewer = watch()
  session.say(Buffer.alloc(limits.consoleHistoryBytes, 'x'))
  say(session, 'more')
  await turns()
  assert.deepEqual(viewer.received.at(-1), {
    kind: 'attached',
    place: { session: session.id, cursor: 4, replayBytes: limits.consoleHistoryBytes, lostBytes: 4 },
  })
  assert.equal(viewer.text.length, limits.consoleHistoryBytes)
  assert.ok(viewer.text.endsWith('xmore'))
})

test('a console without viewers is not listened to', async () => {
  const { session, watch } = await stage()
  const viewer = watch()
  viewer.close('vm_stopped')
  viewer.leave()
  say(session, 'to no viewer')
  await turns()
  assert.equal(session.spent, 0)
  const next = watch()
  assert.equal(next.text, 'to no viewer')
})

test('waiting input holds back all viewers, later ones too, until there is room; the end releases all', async () => {
  const { consoles, session, watch } = await stage()
  session.readInput(false)
  const [typing, other] = [watch(true), watch(true)]
  typing.type(Buffer.alloc(limits.consoleInputBytesMax))
  assert.ok(!typing.isHeld && !other.isHeld)
  typing.type(Buffer.from('x'))
  const late = watch(true)
  assert.ok(typing.isHeld && other.isHeld && late.isHeld)
  session.readInput(true)
  assert.ok(!typing.isHeld && !other.isHeld && !late.isHeld)
  session.readInput(false)
  late.type(Buffer.alloc(limits.consoleInputBytesMax + 1))
  assert.ok(other.isHeld)
  await consoles.endSession(web)
  assert.ok(!typing.isHeld && !other.isHeld && !late.isHeld)
})

test('the end of a session sends what is left, then closes or waits', async () => {
  const { consoles, session, watch } = await stage()
  const [once, following] = [watch(), watch(true)]
  say(session, 'bye')
  await consoles.endSession(web)
  assert.deepEqual([once.text, once.closedWith], ['bye', 'vm_stopped'])
  assert.deepEqual([following.text, following.closedWith], ['bye', undefined])
  assert.deepEqual(following.received.at(-1), { kind: 'waiting' })
})

test('the end of a VM under deletion closes all; so does its record going while they wait', async () => {
  const ending = await stage()
  const viewers = [ending.watch(), ending.watch(true)]
  ending.store.deleting = true
  await ending.consoles.endSession(web)
  for (const { closedWith } of viewers) assert.equal(closedWith, 'vm_deleted')

  const going = await stage()
  await going.consoles.endSession(web)
  const waiting = going.watch(true)
  going.store.changed(web)
  assert.equal(waiting.closedWith, undefined)
  going.store.isGone = true
  going.store.changed(web)
  assert.equal(waiting.closedWith, 'vm_deleted')
})

test('the release of a VM to another host closes all viewers, and names that host', async () => {
  const { store, session, watch } = await stage()
  const viewers = [watch(), watch(true)]
  say(session, 'last words')
  store.departure = { departure: departure('handed_over') }
  store.changed(web)
  assert.deepEqual(
    viewers.map(({ closedWith }) => closedWith),
    [undefined, undefined],
  )
  store.departure = { departure: departure('released') }
  store.changed(web)
  for (const { text, closedWith, words } of viewers)
    assert.deepEqual([text, closedWith, words], ['last words', 'vm_moved', 'host-2'])
})

test('viewers that wait for a start do not wait for one that moved, also if they come late', async () => {
  const { consoles, store, watch } = await stage()
  await consoles.endSession(web)
  const waiting = watch(true)
  store.departure = { departure: departure('released') }
  store.changed(web)
  for (const { closedWith, words } of [waiting, watch(true), watch()])
    assert.deepEqual([closedWith, words], ['vm_moved', 'host-2'])
})

test('a session that ends after the release has moved, and was not stopped', async () => {
  const { consoles, store, watch } = await stage()
  const viewers = [watch(), watch(true)]
  store.departure = { departure: departure('released') }
  await consoles.endSession(web)
  for (const { closedWith } of viewers) assert.equal(closedWith, 'vm_moved')
})

const departure = (at: Departure['stage']): Departure =>
  ({ id: 'move-7', node: 'host-2', mode: 'live', stage: at, sinceMs: 1000 }) as Departure

test('a viewer that does not follow and comes when the session has just ended learns that', async () => {
  const { consoles, watch } = await stage()
  await consoles.endSession(web)
  assert.equal(watch().closedWith, 'vm_stopped')
})

test('a viewer that comes after the end is shown what the last session said, from where it stopped', async () => {
  const { consoles, hub, session, watch } = await stage()
  say(session, 'panic: all is lost')
  await consoles.endSession(web)
  assert.equal(hub.standing(web), 'over')
  const late = watch()
  assert.deepEqual([late.text, late.closedWith], ['panic: all is lost', 'vm_stopped'])
  const back = new FakeViewer()
  hub.watch(web, back, { follow: false, stoppedAt: { cursor: 7, session: session.id } })
  assert.equal(back.text, 'all is lost')
})

test('a viewer that follows and comes after the end is shown the last session too, once, and then waits', async () => {
  const { consoles, hub, session, watch } = await stage()
  say(session, 'panic: all is lost')
  await consoles.endSession(web)
  const late = watch(true)
  assert.deepEqual([late.text, late.closedWith], ['panic: all is lost', undefined])
  assert.deepEqual(late.received, [
    {
      kind: 'attached',
      place: { session: session.id, cursor: 0, replayBytes: 18, lostBytes: 0, over: true },
    },
    { kind: 'waiting' },
  ])
  const back = (cursor: number): FakeViewer => {
    const viewer = new FakeViewer()
    hub.watch(web, viewer, { follow: true, stoppedAt: { cursor, session: session.id } })
    return viewer
  }
  assert.equal(back(7).text, 'all is lost')
  assert.deepEqual(back(18).received, [{ kind: 'waiting' }])
  await consoles.ensureMaster(web)
  consoles.say(web, 'boot')
  await turns()
  assert.equal(late.text, 'panic: all is lostboot')
})

test('a viewer stays attached over a sleep and a wake, without a seam', async () => {
  const { consoles, session, watch } = await stage()
  const viewer = watch()
  say(session, 'before, ')
  await consoles.removeMaster(web)
  assert.equal(viewer.text, 'before, ')
  viewer.type(Buffer.from('typed'))
  await consoles.ensureMaster(web)
  consoles.passInput(web)
  assert.equal(session.terminal.typed, 'typed')
  say(session, 'after')
  await turns()
  assert.equal(viewer.text, 'before, after')
  assert.deepEqual(guestsOf(viewer), ['running'])
})

const guestsOf = ({ received }: FakeViewer): string[] =>
  received.flatMap((message) => (message.kind === 'guest' ? [message.state] : []))

test('viewers learn that the guest rests and runs again, each state once, and after its last output', async () => {
  const { session, watch, observe } = await stage()
  const viewer = watch()
  say(session, 'bye')
  observe('sleeping')
  assert.equal(viewer.text, 'bye')
  observe('waking', 'sleeping')
  const late = watch()
  assert.equal(late.text, 'bye')
  observe('waking', 'running', 'pausing', 'paused', 'running')
  assert.deepEqual(guestsOf(viewer), ['running', 'sleeping', 'running', 'paused', 'running'])
  assert.deepEqual(guestsOf(late), ['sleeping', 'running', 'paused', 'running'])
})

test('a stop of a sleeping guest is not announced as its wake, and the next session begins with one that runs', async () => {
  const { consoles, watch, observe } = await stage()
  const viewer = watch(true)
  observe('sleeping', 'stopping')
  await consoles.remove(web)
  observe('stopped', 'starting')
  await consoles.ensureMaster(web)
  observe('running')
  assert.deepEqual(guestsOf(viewer), ['running', 'sleeping', 'running'])
})

test('a viewer that comes while the guest does not read is not read, and is when the guest has read', async () => {
  const { session, watch } = await stage()
  session.readInput(false)
  const first = watch()
  first.type(Buffer.alloc(limits.consoleInputBytesMax + 1))
  first.leave()
  const second = watch()
  assert.ok(second.isHeld)
  session.readInput(true)
  assert.ok(!second.isHeld)
})

test('viewers that come and go leave no more input than is kept', async () => {
  const { session, watch } = await stage()
  session.readInput(false)
  const messages = limits.consoleInputKeptBytesMax / limits.consoleMessageBytesMax
  for (let message = 0; message < messages + 2; message += 1) {
    const viewer = watch()
    viewer.type(Buffer.alloc(limits.consoleMessageBytesMax))
    viewer.leave()
  }
  assert.equal(session.inputWaiting, limits.consoleInputKeptBytesMax)
})

test('a paused guest that is asked to end runs meanwhile', async () => {
  const { store, watch, observe } = await stage()
  const viewer = watch()
  store.grace = { stop: 2, fromMs: 1, untilMs: 1000 }
  observe('paused', 'stopping')
  assert.deepEqual(guestsOf(viewer), ['running', 'paused'])
  store.grace = { ...store.grace, askedAtMs: 2 }
  observe('stopping')
  assert.deepEqual(guestsOf(viewer), ['running', 'paused', 'running'])
})

test('a guest whose wake has failed is not said to run to a viewer that comes then', async () => {
  const { store, watch, observe } = await stage()
  store.saved = { savedState: { savedAtMs: 1, sizeMib: 1, memoryMib: 64 } }
  observe('sleeping', 'waking', 'failed')
  assert.deepEqual(guestsOf(watch()), ['sleeping'])
})

test('a VM that is started paused is not said to run, and of another that starts nothing is said yet', async () => {
  const { consoles, store, watch, observe } = await stage()
  const viewer = watch(true)
  await consoles.remove(web)
  observe('stopped')
  store.power = 'paused'
  observe('starting')
  await consoles.ensureMaster(web)
  observe('paused')
  assert.deepEqual(guestsOf(viewer), ['running', 'paused'])
  store.power = 'running'
  await consoles.remove(web)
  observe('starting')
  await consoles.ensureMaster(web)
  assert.deepEqual(guestsOf(viewer), ['running', 'paused'])
  observe('running')
  assert.deepEqual(guestsOf(viewer), ['running', 'paused', 'running'])
})
