import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const path = '/v1/vms/web-1'

async function withVm(t: Parameters<typeof startControllerHost>[0]) {
  const host = await startControllerHost(t, pki)
  const { headers, json } = await host.call({ method: 'PUT', path, body: createBody() })
  const power = (state: string, conditions: Record<string, string>) =>
    host.call({ method: 'PUT', path: `${path}/power`, body: { state }, headers: conditions })
  return { host, etag: headers.etag ?? '', revision: json.revision as number, power }
}

test('an ETag without its quotes is refused, and so is anything else that has not its form', async (t) => {
  const { host, revision, power } = await withVm(t)
  for (const tag of [
    `${revision}`,
    `${revision}"`,
    `"${revision}`,
    'w/"1"',
    '"1" "2"',
    '"a b"',
    '*, "1"',
    '',
  ]) {
    const changed = await power('stopped', { 'if-match': tag })
    const { detail, errors } = assertProblem(changed, 400, 'invalid_request')
    assert.equal(detail, 'the header If-Match must be an ETag in its quotes, or *', tag)
    assert.equal(errors[0].pointer, '/if-match')
    const read = await host.call({ path, headers: { 'if-none-match': tag, prefer: 'wait=30' } })
    assert.match(assertProblem(read, 400, 'invalid_request').detail, /^the header If-None-Match must be/)
  }
  assert.equal(host.store.vms.get('web-1' as VmId)?.desired.power, 'running')
})

test('a list of ETags may have spaces and empty items', async (t) => {
  const { host, etag, power } = await withVm(t)
  for (const tags of [`"3",${etag}`, `, "3",\t,W/${etag} ,`, `"3" , W/${etag}`])
    assert.equal((await host.call({ path, headers: { 'if-none-match': tags } })).status, 304, tags)
  assert.equal((await power('stopped', { 'if-match': `"a,b", W/"1",, ${etag}` })).status, 202)
})

test('a weak ETag never matches in If-Match, and the refusal says so', async (t) => {
  const { etag, power } = await withVm(t)
  const { detail } = assertProblem(
    await power('stopped', { 'if-match': `W/${etag}` }),
    412,
    'precondition_failed',
  )
  assert.match(detail, /^a weak ETag \(W\/"…"\) never matches in If-Match: send the one of an answer/)
})

test('If-None-Match: * creates what is not there, and changes nothing that is', async (t) => {
  const { host, etag, power } = await withVm(t)
  const create = (id: string, tag: string, query = '') => {
    const body = createBody({ network: undefined })
    return host.call({
      method: 'PUT',
      path: `/v1/vms/${id}${query}`,
      body,
      headers: { 'if-none-match': tag },
    })
  }
  assert.equal((await create('web-2', '*')).status, 202)
  const again = assertProblem(await create('web-2', '*'), 412, 'precondition_failed')
  assert.match(again.detail, /^If-None-Match names the VM that is there, at revision \d+: read it/)
  assertProblem(await create('web-2', '*', '?dry_run=true'), 412, 'precondition_failed')
  assertProblem(await create('web-2', 'x'), 400, 'invalid_request')
  assert.equal((await create('web-2', '"1"')).status, 200)
  assertProblem(await power('stopped', { 'if-none-match': `W/${etag}` }), 412, 'precondition_failed')
  assertProblem(
    await power('stopped', { 'if-match': etag, 'if-none-match': '*' }),
    412,
    'precondition_failed',
  )
  assert.equal((await power('stopped', { 'if-match': etag, 'if-none-match': '"1"' })).status, 202)
  const cordon = { method: 'PUT', path: '/v1/maintenance', body: { state: 'cordoned' } }
  const cordoned = await host.call({ ...cordon, headers: { 'if-none-match': '*' } })
  assertProblem(cordoned, 412, 'precondition_failed')
  const gone = { method: 'DELETE', path: '/v1/snapshots/s-1', headers: { 'if-none-match': '*' } }
  assert.equal((await host.call(gone)).status, 204)
})
