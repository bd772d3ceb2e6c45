/** The stage itself: a host without its daemon, a cut line, and a client that stays connected. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from '../contract/at-end.ts'
import { skip } from './lab-host.ts'
import { MovingGuest } from './moving-guest.ts'
import { cutLine, joinLine } from './roads.ts'
import { both, twoHosts } from './two-hosts-stage.ts'

twoHosts()

test('packets between the hosts vanish while the line is cut', { skip }, async () => {
  const { first, second } = both()
  assert.equal((await second.ask(first, '/healthz')).status, 200)
  await cutLine(first)
  assert.deepEqual(
    (await Promise.all([second.ask(first, '/healthz'), first.ask(second, '/healthz')])).map(
      ({ status }) => status,
    ),
    [0, 0],
  )
  await joinLine(first)
  assert.equal((await second.ask(first, '/healthz')).status, 200)
})

test(
  'a client counts on while the daemon of its guest is down, and the disk has each line',
  { skip },
  async (t) => {
    const guest = await MovingGuest.boot('counted', '198.51.100.10', both())
    atEnd(t, () => guest.client.close())
    const pinger = guest.ping(t)
    guest.talk()
    await guest.hears()
    await guest.here.killDaemon()
    await guest.hears()
    await guest.here.startDaemon()
    await guest.hears()
    await guest.client.checkDisk()
    assert.deepEqual(await pinger.end(), { lost: [], repeated: 0 })
  },
)
