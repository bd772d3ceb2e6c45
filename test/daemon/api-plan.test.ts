import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import { clientWith } from './support/coordination-host.ts'
import { eventually } from './support/eventually.ts'
import { limits } from '../../src/config/limits.ts'
import type { TestContext } from 'node:test'
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

/** Looks at the host that wait until the gate opens. */
function gatedLooks(t: TestContext, { host: { units } }: ControllerHost) {
  const gate = Promise.withResolvers<void>()
  const inspect = units.inspect.bind(units)
  const looks = t.mock.method(units, 'inspect', async (id: VmId) => {
    await gate.promise
    return inspect(id)
  })
  return { begun: () => looks.mock.callCount(), open: () => gate.resolve() }
}

const rehearsal = { method: 'PUT', path: `${path}/power?dry_run=true`, body: { state: 'stopped' } }

test('those who ask for plans look at the host a few at a time, so that the daemon can look too', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const looks = gatedLooks(t, host)
  const calls = [{ path: `${path}/plan` }, rehearsal]
  const asked = Array.from({ length: 3 * limits.askedLooksMax }, () => calls.map((call) => host.call(call)))
  await eventually(() => looks.begun() >= limits.askedLooksMax)
  await host.call({ path })
  assert.equal(looks.begun(), limits.askedLooksMax)
  looks.open()
  for (const { status } of await Promise.all(asked.flat())) assert.equal(status, 200)
})

test('a client that leaves before its turn costs no look and is not an error', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const looks = gatedLooks(t, host)
  const staying = Array.from({ length: limits.askedLooksMax }, () => host.call({ path: `${path}/plan` }))
  await eventually(() => looks.begun() === limits.askedLooksMax)
  const inputs = t.mock.method(host.store.vms, 'inputs')
  const abort = new AbortController()
  const client = { ...clientWith(pki, pki.controller), signal: abort.signal }
  const left = assert.rejects(host.call({ ...rehearsal, client }))
  // The request for the look follows in the same turn of the event loop.
  await eventually(() => inputs.mock.callCount() === 1)
  abort.abort()
  await left
  const isLogged = (line: string): boolean => JSON.parse(line).action === 'setVmPower'
  await eventually(() => host.logLines.some(isLogged))
  const { outcome, code } = JSON.parse(host.logLines.find(isLogged) ?? '')
  assert.deepEqual([outcome, code], ['refused', 'invalid_request'])
  looks.open()
  await Promise.all(staying)
  assert.equal(looks.begun(), limits.askedLooksMax)
})

test('counters of a VM that does not run and has no device yet are those on record', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const { status, json } = await host.call({ path: `${path}/counters` })
  assert.equal(status, 200)
  assert.deepEqual(Object.keys(json), ['at', 'wakes', 'restarts'])
})
