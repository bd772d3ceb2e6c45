/** The stage itself: a host without its daemon, a cut line, and a client that stays connected. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guestRequest } from '../../lab/inside/guest.ts'
import { atEnd } from '../contract/at-end.ts'
import { CountingClient } from './counting-client.ts'
import { skip } from './lab-host.ts'
import { cutLine, joinLine, routeGuest } from './roads.ts'
import { both, twoHosts } from './two-hosts-stage.ts'

const ADDRESS = '198.51.100.7'

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
    const { first } = both()
    const request = guestRequest({ network: { ipv4_address: ADDRESS }, root: first.root })
    await first.controller.mutate('PUT', '/v1/vms/counted', request)
    await first.controller.settled('counted', 'running')
    await routeGuest(ADDRESS, first)
    const client = await CountingClient.open(ADDRESS)
    atEnd(t, () => client.close())
    client.talk(5)
    await client.hears(50)
    await first.killDaemon()
    await client.hears(50)
    await first.startDaemon()
    await client.hears(50)
    await client.checkDisk()
    t.diagnostic(`longest pause ${client.longestPauseMs.toFixed(0)} ms over ${client.answered} answers`)
  },
)
