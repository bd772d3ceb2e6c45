/** A prefix that the installed daemon routes to a real guest: packets to it wake the guest, and none is lost. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { call, getVm } from '../../lab/inside/controller.ts'
import { datagram, echo, exchange } from '../../lab/inside/first-packets.ts'
import { sh } from '../../lab/inside/shell.ts'
import { asleep, awake, sleepAfter, sleeper } from '../../lab/inside/sleepers.ts'
import { typeInto } from '../../lab/inside/type-into.ts'
import { IDLE_SECONDS, sleeperOfTests } from './sleeper-of-tests.ts'

const one = sleeper('prefix', 21)
const { id, ipv6 } = one
const life = sleeperOfTests(one)
const PREFIX = '2001:db8:1:42::/64'
const INSIDE = '2001:db8:1:42::5'
const OUTSIDE = '2001:db8:1:43::5'
const PACKETS = 40

const setPrefix = (prefix: string): Promise<string> =>
  sh('vmhostctl', 'vm', 'network', id, '--ipv6-prefix', prefix, '--wait')

const routeTo = (address: string): Promise<string> => sh('ip', 'route', 'get', address).catch(() => 'none')

const spoofedPackets = async (): Promise<number> => {
  const { body } = await call('GET', `/v1/vms/${id}/counters`)
  return (body as unknown as { readonly network: { readonly spoofed_packets: number } }).network
    .spoofed_packets
}

test('a running guest gets a prefix, answers from it, and from no address beside it', async () => {
  await sleepAfter(id, 0)
  await setPrefix(PREFIX)
  assert.match(await sh('vmhostctl', 'vm', 'get', id), /^ *prefix +2001:db8:1:42::\/64$/m)
  await typeInto(id, `for a in ${INSIDE} ${OUTSIDE}; do ip addr add $a/128 dev lo; done`)
  assert.match(await routeTo(INSIDE), new RegExp(`via ${ipv6} dev vmt`))
  await exchange(INSIDE)
  const before = await spoofedPackets()
  await typeInto(
    id,
    `ping -c 1 -W 1 -I ${OUTSIDE} 2001:db8:ffff::9; ping -c 1 -W 1 -I ${INSIDE} fe80::1%eth0`,
  )
  assert.equal((await spoofedPackets()) - before, 1)
  await sleepAfter(id, IDLE_SECONDS)
})

for (const [kind, send] of [
  ['TCP', () => exchange(INSIDE)],
  ['UDP', () => datagram(INSIDE)],
  ['an ICMP echo', () => echo(INSIDE)],
] as const) {
  test(`${kind} to an address of the prefix wakes the sleeping guest, and is answered`, async () => {
    const { observed } = await asleep(id)
    await send()
    const { last_wake: wake } = (await awake(id, observed.last_wake?.at)).observed
    assert.equal(wake?.reason, 'traffic')
    assert.ok((wake?.held_packets ?? 0) >= 1)
    assert.equal(wake?.dropped_packets, 0)
    await life.assertSame()
  })
}

test('no packet of many to the prefix is lost while the guest wakes', async () => {
  await asleep(id)
  const said = await sh('ping', '-n', '-q', '-c', `${PACKETS}`, '-i', '0.02', '-W', '20', INSIDE)
  assert.match(said, new RegExp(`${PACKETS} received`))
})

test('a prefix changes and goes while its guest sleeps, and the guest sleeps on', async () => {
  const { observed } = await asleep(id)
  await setPrefix('2001:db8:1:43::/64')
  assert.match(await routeTo(OUTSIDE), new RegExp(`via ${ipv6} dev vmt`))
  assert.doesNotMatch(await routeTo(INSIDE), /vmt/)
  assert.deepEqual((await getVm(id)).observed.last_wake, observed.last_wake)
  await exchange(OUTSIDE)
  await asleep(id)
  await setPrefix('none')
  assert.doesNotMatch(await routeTo(OUTSIDE), /vmt/)
  assert.equal((await getVm(id)).observed.state, 'sleeping')
  await life.assertSame()
})
