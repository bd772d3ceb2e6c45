import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import {
  assertProblem,
  createBody,
  makePki,
  offerBody,
  startControllerHost,
} from './support/controller-host.ts'
import type { TestContext } from 'node:test'
import type { Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const MIGRATION = '/v1/vms/web-1/migration'

async function start(t: TestContext) {
  const host = await startControllerHost(t, pki)
  assert.equal((await host.call({ method: 'PUT', path: '/v1/vms/web-1', body: createBody() })).status, 202)
  return {
    host,
    offer: (body: unknown = offerBody(), query = '') =>
      host.call({ method: 'PUT', path: `${MIGRATION}${query}`, body }),
    withdraw: () => host.call({ method: 'DELETE', path: MIGRATION }),
  }
}

test('an offer is shown as it was asked for, and how far it is', async (t) => {
  const { host, offer } = await start(t)
  const body = offerBody()
  const { status, json } = await offer(body)
  assert.equal(status, 202)
  assert.deepEqual(json.desired.migration, body)
  const { stage_since: _since, ...departure } = json.observed.migration
  assert.deepEqual(departure, { migration_id: 'move-7', stage: 'offered' })
  assert.deepEqual(json.generations, { desired: 2, observed: 0 })
  assert.deepEqual((await host.call({ path: '/v1/vms/web-1' })).json.desired.migration, body)
  assert.equal((await offer(body)).status, 200)
})

test('a withdrawal raises a generation and shows why the VM stays', async (t) => {
  const { offer, withdraw } = await start(t)
  await offer()
  const { status, json } = await withdraw()
  assert.equal(status, 202)
  assert.equal(json.desired.migration, undefined)
  assert.equal(json.observed.migration.withdrawn_because, 'withdrawn')
  assert.equal(json.generations.desired, 3)
  assert.equal((await withdraw()).status, 200)
})

test('a dry run of an offer stores nothing, and shows what the VM would wait for', async (t) => {
  const { host, offer } = await start(t)
  const { status, json } = await offer(offerBody(), '?dry_run=true')
  assert.equal(status, 200)
  assert.deepEqual(
    json.dry_run.changes.map(({ pointer }: { pointer: string }) => pointer),
    ['/desired/migration'],
  )
  assert.equal((await host.call({ path: '/v1/vms/web-1' })).json.desired.migration, undefined)
})

for (const [what, changes, pointer] of [
  ['a node that cannot be a common name', { node: '../node' }, '/node'],
  ['a mode that does not exist', { mode: 'warm' }, '/mode'],
  ['a time in words', { expires_at: 'tomorrow' }, '/expires_at'],
  ['a time that is over', { expires_at: '2020-01-01T00:00:00Z' }, '/expires_at'],
  ['a member that does not exist', { force: true }, '/force'],
] as const) {
  test(`an offer with ${what} is refused with its pointer`, async (t) => {
    const { offer } = await start(t)
    const answer = await offer(offerBody(changes))
    assertProblem(answer, 400, 'invalid_request')
    assert.deepEqual(
      answer.json.errors.map((one: { pointer: string }) => one.pointer),
      [pointer],
    )
  })
}
