/** A guest that moves while one of the daemons is killed, or the line is cut, at each stage. */
import assert from 'node:assert/strict'
import { after, afterEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { atEnd } from '../contract/at-end.ts'
import { leave } from './both-hosts.ts'
import { skip } from './lab-host.ts'
import { MovingGuest } from './moving-guest.ts'
import { hasArrived, seen } from './move.ts'
import { cutLine, joinLine } from './roads.ts'
import { both, twoHosts } from './two-hosts-stage.ts'
import type { TestContext } from 'node:test'

/** How long a daemon is down, or the line is cut. */
const FAULT_MS = 1500
/** Bound for packets that came to the source after it had released the guest. */
const LATE_MS = 30_000
/** The stages at the source, in their order; a fault comes when the source shows this one or a later one. */
const STAGES = ['offered', 'copying', 'handing_over', 'handed_over', 'released'] as const
type Stage = (typeof STAGES)[number]

twoHosts()

type Sides = Pick<MovingGuest, 'here' | 'there'>

type Fault = {
  readonly name: string
  readonly begin: (sides: Sides) => Promise<void>
  readonly end: (sides: Sides) => Promise<void>
}

const FAULTS: readonly Fault[] = [
  {
    name: 'the daemon of the source is killed',
    begin: ({ here }) => here.killDaemon(),
    end: ({ here }) => here.startDaemon(),
  },
  {
    name: 'the daemon of the destination is killed',
    begin: ({ there }) => there.killDaemon(),
    end: ({ there }) => there.startDaemon(),
  },
  {
    name: 'the line is cut',
    begin: ({ here }) => cutLine(here),
    end: ({ here }) => joinLine(here),
  },
]

let guest: MovingGuest | undefined

/** Returns the guest of the file; boots it for the first test, and again after a failure. */
async function theGuest(): Promise<MovingGuest> {
  guest ??= await MovingGuest.boot('tried', '198.51.100.14', both())
  return guest
}

afterEach(async (t) => {
  if ((t as TestContext).passed || guest === undefined) return
  guest.client.close()
  guest = undefined
  await leave(both())
})

after(() => guest?.client.close())

const reached =
  (stage: Stage) =>
  ({ migration }: { readonly migration?: { readonly stage: string } }): boolean =>
    STAGES.findIndex((one) => one === migration?.stage) >= STAGES.indexOf(stage)

/** Lets the fault come at this stage, and ends it. The controller moves the route meanwhile, as soon as it can. */
async function meanwhile(fault: Fault, stage: Stage, moving: MovingGuest): Promise<void> {
  // The guest may change sides while the fault lasts.
  const { here, there } = moving
  await seen(here, moving.id, reached(stage))
  await fault.begin({ here, there })
  await sleep(FAULT_MS)
  await fault.end({ here, there })
}

for (const stage of STAGES.slice(1)) {
  for (const fault of FAULTS) {
    test(`${fault.name} at ${stage}: the guest arrives once, and misses nothing`, { skip }, async (t) => {
      const moving = await theGuest()
      moving.talk()
      await moving.hears()
      const pinger = moving.ping(t)
      await moving.begin()
      await Promise.all([moving.arrives('running'), meanwhile(fault, stage, moving)])
      await moving.hears()
      await moving.assertOnlyHere()
      await pinger.allAnswered(LATE_MS)
      await moving.forgetBehind()
      const { lost } = await pinger.end()
      assert.deepEqual(lost, [])
      await moving.client.rest()
    })
  }
}

test('packets for a host that was killed after the release arrive late, but arrive', { skip }, async (t) => {
  const moving = await theGuest()
  const pinger = moving.ping(t)
  await moving.begin()
  const { here, there, id } = moving
  await seen(there, id, hasArrived)
  await here.killDaemon()
  await sleep(FAULT_MS)
  await here.startDaemon()
  await moving.arrives('running')
  await sleep(FAULT_MS)
  await pinger.allAnswered(LATE_MS)
  await moving.forgetBehind()
})

test(
  'a line that stays cut leaves the guest at its source, and the other host gives up',
  { skip },
  async (t) => {
    const moving = await theGuest()
    const { here, there, id } = moving
    atEnd(t, () => joinLine(here))
    moving.talk()
    await moving.hears()
    await moving.begin()
    await seen(here, id, reached('handing_over'))
    await cutLine(here)
    await seen(here, id, ({ migration }) => migration?.stage === 'withdrawn', 90_000)
    await here.controller.settled(id, 'running')
    await moving.hears()
    await joinLine(here)
    await seen(there, id, ({ arrival }) => arrival?.stage === 'refused')
    await moving.assertOnlyHere()
    await moving.client.checkDisk()
  },
)
