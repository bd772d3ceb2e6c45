/** VMs that move to another host and back, with their memory, disk, connections and packets. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from '../contract/at-end.ts'
import { skip } from './lab-host.ts'
import { ipv6Of, MovingGuest } from './moving-guest.ts'
import { both, twoHosts } from './two-hosts-stage.ts'
import type { TestContext } from 'node:test'

twoHosts()

async function bootedFor(t: TestContext, id: string, address: string): Promise<MovingGuest> {
  const guest = await MovingGuest.boot(id, address, both())
  atEnd(t, () => guest.client.close())
  return guest
}

test(
  'a running guest moves and returns with its connection, its disk and every packet',
  { skip },
  async (t) => {
    const guest = await bootedFor(t, 'mover', '198.51.100.11')
    guest.talk()
    const pinger = guest.ping(t)
    for (const way of ['there', 'back']) {
      await guest.hears()
      await guest.begin()
      await guest.arrives('running')
      await guest.hears()
      await guest.assertOnlyHere()
      await guest.forgetBehind()
      t.diagnostic(`${way}: still for ${guest.client.takeLongestPauseMs().toFixed(0)} ms`)
    }
    const { lost, repeated } = await pinger.end()
    assert.deepEqual({ lost, repeated }, { lost: [], repeated: 0 })
    await guest.client.checkDisk()
  },
)

test('a sleeping guest moves asleep, and wakes for its client at the other host', { skip }, async (t) => {
  const guest = await bootedFor(t, 'dreamer', '198.51.100.12')
  guest.talk()
  await guest.hears()
  await guest.client.rest()
  const { controller } = guest.here
  await controller.mutate('PUT', `/v1/vms/${guest.id}/compute`, {
    cpu_millicores: 1000,
    memory_mib: 256,
    sleep_after_idle_seconds: 2,
  })
  await controller.settled(guest.id, 'sleeping')
  await guest.begin()
  await guest.arrives('sleeping')
  const { last_wake } = (await guest.here.controller.getVm(guest.id)).observed
  assert.equal(last_wake, undefined, 'it woke to move')
  guest.talk()
  await guest.hears()
  await guest.client.checkDisk()
})

test('a stopped VM moves with its disk, and boots at the other host', { skip }, async (t) => {
  const guest = await bootedFor(t, 'still', '198.51.100.13')
  guest.talk()
  await guest.hears()
  await guest.client.checkDisk()
  await guest.here.controller.setPower(guest.id, 'stopped')
  await guest.here.controller.settled(guest.id, 'stopped')
  const before = await guest.diskDigest()
  await guest.begin()
  await guest.arrives('stopped')
  assert.equal(await guest.diskDigest(), before)
  await guest.here.controller.setPower(guest.id, 'running')
  await guest.here.controller.settled(guest.id, 'running')
  await guest.reconnect()
})

test('a guest that moves cold boots at the other host, with its disk', { skip }, async (t) => {
  const guest = await bootedFor(t, 'cold', '198.51.100.14')
  guest.talk()
  await guest.hears()
  await guest.client.checkDisk()
  await guest.begin({ mode: 'cold' })
  await guest.arrives('running')
  await guest.reconnect()
  await guest.assertOnlyHere()
})

test(
  'a paused guest stays paused, and its console, labels, firewall and prefix come with it',
  { skip },
  async (t) => {
    const guest = await bootedFor(t, 'still-life', '198.51.100.15')
    guest.talk()
    await guest.hears()
    await guest.client.rest()
    const { controller } = guest.here
    await controller.mutate('PUT', `/v1/vms/${guest.id}/metadata`, {
      labels: { env: 'prod' },
      protected: false,
    })
    await controller.mutate('PUT', `/v1/vms/${guest.id}/network`, {
      ipv6_prefix: '2001:db8:1:42::/64',
      firewall: {
        inbound: [{ protocol: 'tcp', ports: ['7'] }],
        outbound: [{ action: 'deny', protocol: 'tcp', ports: ['25'] }],
      },
    })
    await controller.setPower(guest.id, 'paused')
    const there = await controller.settled(guest.id, 'paused')
    const said = await guest.here.run('vmhostd', 'console', guest.id)
    await guest.begin()
    await guest.arrives('paused')
    const here = await guest.here.controller.getVm(guest.id)
    const { migration: _offer, ...desired } = there.desired
    assert.deepEqual([here.desired, here.labels], [desired, there.labels])
    const route = await guest.here.run('ip', 'route', 'get', '2001:db8:1:42::5')
    assert.match(route, new RegExp(`via ${ipv6Of('198.51.100.15')} dev vmt`))
    assert.equal(await guest.here.run('vmhostd', 'console', guest.id), said)
    await guest.here.controller.setPower(guest.id, 'running')
    await guest.here.controller.settled(guest.id, 'running')
    guest.talk()
    await guest.hears()
    await guest.client.checkDisk()
  },
)
