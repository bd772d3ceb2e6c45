/** Two hosts whose nodes are of one authority: what the second one sees of an offer of the first. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guestRequest } from '../../lab/inside/guest.ts'
import { offer } from './move.ts'
import { skip } from './lab-host.ts'
import { both, twoHosts } from './two-hosts-stage.ts'

const VM = 'offered'
const MIGRATION = 'move-offered-1'

twoHosts()

test('a host reaches the daemon of another one with the certificate of its node', { skip }, async () => {
  const { first, second } = both()
  for (const [from, to] of [
    [second, first],
    [first, second],
  ] as const)
    assert.equal((await from.ask(to, '/readyz')).status, 200)
})

test('the certificate of a controller is refused on the port for other hosts', { skip }, async () => {
  const { first } = both()
  assert.equal((await first.ask(first, '/readyz', 'controller')).status, 0)
})

test('only the node of an offer sees it', { skip }, async () => {
  const { first, second } = both()
  await first.controller.mutate('PUT', `/v1/vms/${VM}`, guestRequest({ power: 'stopped', root: first.root }))
  await first.controller.settled(VM, 'stopped')
  await offer({ vm: VM, migration: MIGRATION, from: first, to: second })
  const seen = await second.ask(first, `/v1/migrations/${MIGRATION}`)
  assert.equal(seen.status, 200, seen.body)
  assert.equal((JSON.parse(seen.body) as { stage: string }).stage, 'offered')
  for (const [host, id] of [
    [first, MIGRATION],
    [second, 'move-offered-2'],
  ] as const)
    assert.equal((await host.ask(first, `/v1/migrations/${id}`)).status, 404, `${id} from ${host.node}`)
})
