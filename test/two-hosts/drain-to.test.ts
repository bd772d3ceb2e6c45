/** A host that is emptied by moving its VMs to another one, as an operator does it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bareRequest, firstEcho, udpEcho } from '../../lab/inside/bare.ts'
import { sleeper } from '../../lab/inside/sleepers.ts'
import { labExec } from '../../lab/lab.ts'
import { atEnd } from '../contract/at-end.ts'
import { giveProfile } from './give-profile.ts'
import { skip } from './lab-host.ts'
import { routeGuest } from './roads.ts'
import { both, twoHosts } from './two-hosts-stage.ts'
import type { LabHost } from './lab-host.ts'

const guests = [71, 72].map((number) => sleeper('evacuee', number))
const still = sleeper('evacuee', 73)
/** The other host has a VM of this name already. */
const bound = sleeper('bound', 74)
const ELSEWHERE = sleeper('bound', 75)

twoHosts()

/** Names the VMs of a host. */
async function vmsOf({ controller }: LabHost): Promise<readonly string[]> {
  const { body } = await controller.call('GET', '/v1/vms')
  return (body as unknown as { items: readonly { id: string }[] }).items.map(({ id }) => id)
}

test('VMs move over the death of a daemon, and one that is not taken sleeps', { skip }, async (t) => {
  const { first, second } = both()
  const profile = await giveProfile(first, second, '/root/host-2')
  await second.controller.ready()
  atEnd(t, () => first.run('vmhostctl', 'host', 'uncordon'))
  const make = async (host: LabHost, vm: typeof still, power: 'running' | 'stopped', id = vm.id) => {
    await host.controller.mutate('PUT', `/v1/vms/${id}`, bareRequest(vm, { power, root: host.root }))
    await host.controller.settled(id, power)
  }
  for (const guest of [...guests, bound]) await make(first, guest, 'running')
  await make(first, still, 'stopped')
  await make(second, ELSEWHERE, 'stopped', bound.id)
  for (const { ipv4 } of guests) {
    await routeGuest(ipv4, first)
    await firstEcho(ipv4)
  }
  const line = [
    'vmhostctl',
    'host',
    'drain',
    '--to',
    profile,
    '--source-url',
    `https://${first.address}:9001`,
  ]
  const look = await labExec(first.lab, [...line, '--timeout', '0'], { timeoutMs: 60_000 })
  assert.notEqual(look.code, 0, look.stdout)
  await first.killDaemon()
  await first.startDaemon()
  const { code, stdout, stderr } = await labExec(first.lab, line, { timeoutMs: 120_000 })
  assert.equal(code, 1, stderr)
  assert.match(stdout, /VMs? moved; 1 is left: bound-74\n/)
  assert.match(stderr, /evacuee-72: moved to \S+ \(\S+\), running \(\d of 4\)\n/)
  assert.match(stderr, /vmhostctl: .*bound-74/)
  assert.deepEqual(await vmsOf(first), [bound.id])
  assert.equal((await first.controller.getVm(bound.id)).observed.state, 'running')
  for (const { id, ipv4 } of guests) {
    await routeGuest(ipv4, second)
    await udpEcho(ipv4)
    assert.equal((await second.controller.getVm(id)).observed.state, 'running')
  }
  assert.equal((await second.controller.getVm(still.id)).observed.state, 'stopped')
  const rest = await labExec(first.lab, [...line, '--guests', 'sleep'], { timeoutMs: 60_000 })
  assert.equal(rest.code, 1, rest.stderr)
  assert.match(rest.stderr, /vmhostctl: \S+: this host has a VM bound-74 already/)
  assert.match(rest.stdout, /^0 VMs moved; 1 is left: bound-74\ndrained: no guest is left\n$/)
  assert.equal((await first.controller.getVm(bound.id)).observed.state, 'sleeping')
  await first.run('vmhostctl', 'host', 'uncordon')
  await first.controller.settled(bound.id, 'running')
})
