import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import { eventually } from './support/eventually.ts'
import { limits } from '../../src/config/limits.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Answer, ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const path = '/v1/vms/web-1'

const create = (host: ControllerHost): Promise<Answer> =>
  host.call({ method: 'PUT', path, body: createBody() })

test('a plan contains every step with its reason', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const { status, json } = await host.call({ path: `${path}/plan` })
  assert.equal(status, 200)
  assert.equal(json.outcome, 'act')
  const steps = json.steps.map(({ step }: { step: string }) => step)
  assert.deepEqual(steps.slice(0, 2), ['image.ensure-fetched', 'image.ensure-fetched'])
  assert.deepEqual(steps.slice(-2), ['unit.ensure-started', 'traffic.ensure-watched'])
  for (const { because } of json.steps) assert.notEqual(because, '')
  assert.equal(json.operation_id, host.store.vms.get('web-1' as VmId)?.operationId)
  assertProblem(await host.call({ path: '/v1/vms/none/plan' }), 404, 'not_found')
})

test('those who ask for plans look at the host a few at a time, so that the daemon can look too', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const gate = Promise.withResolvers<void>()
  const { units } = host.host
  const inspect = units.inspect.bind(units)
  const looks = t.mock.method(units, 'inspect', async (id: VmId) => {
    await gate.promise
    return inspect(id)
  })
  const asked = Array.from({ length: 3 * limits.askedLooksMax }, () => host.call({ path: `${path}/plan` }))
  await eventually(() => looks.mock.callCount() >= limits.askedLooksMax)
  await host.call({ path })
  assert.equal(looks.mock.callCount(), limits.askedLooksMax)
  gate.resolve()
  for (const { status } of await Promise.all(asked)) assert.equal(status, 200)
})

test('counters of a VM that does not run and has no device yet are those on record', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const { status, json } = await host.call({ path: `${path}/counters` })
  assert.equal(status, 200)
  assert.deepEqual(Object.keys(json), ['at', 'wakes', 'restarts'])
})
