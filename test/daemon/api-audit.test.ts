import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { Agent } from 'node:https'
import { connect as tlsConnect } from 'node:tls'
import { before, test } from 'node:test'
import { createBody, makePki, send, SHA, startControllerHost } from './support/controller-host.ts'
import { createVm, startConsole, watch } from './support/console-viewer.ts'
import { clientWith, startCoordinationHost } from './support/coordination-host.ts'
import { eventually } from './support/eventually.ts'
import { startBody } from './support/snapshots.ts'
import type { Call, Json, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const serialOf = (pem: string): string => new X509Certificate(pem).serialNumber

/** Returns the audit trail as far as it is written. */
const trail = ({ logLines }: { readonly logLines: readonly string[] }): Json[] =>
  logLines.map((line): Json => JSON.parse(line)).filter(({ level }) => level === 'audit')

/** Returns the members of a line that say what came of a mutation. */
const outcomeOf = (line: Json): unknown[] => {
  const { action, outcome, status, code, generation_before, generation_after } = line
  return [action, outcome, status, code, generation_before, generation_after]
}

const put = (path: string, body: unknown, more: Partial<Call> = {}): Call => ({
  method: 'PUT',
  path: `/v1/vms/web-1${path}`,
  body,
  ...more,
})

test('each mutation has one line, with the certificate, the object and its generations', async (t) => {
  const host = await startControllerHost(t, pki)
  const { headers, json } = await host.call(
    put('', createBody(), { headers: { 'x-request-id': 'create-1' } }),
  )
  const [created] = trail(host)
  assert.equal(headers['x-request-id'], 'create-1')
  const { time, ...line } = created
  assert.match(time, /^20/)
  assert.deepEqual(line, {
    level: 'audit',
    service: 'vmhostd',
    action: 'createVm',
    method: 'PUT',
    peer_address: '127.0.0.1',
    certificate_name: 'vmhost-controller',
    certificate_serial: serialOf(pki.controller.certificate),
    role: 'controller',
    vm_id: 'web-1',
    request_id: 'create-1',
    generation_after: 1,
    revision_after: json.revision,
    outcome: 'accepted',
    status: 202,
    operation_id: json.operation_id,
    message: 'request audited',
  })
  await host.call(put('/power', { state: 'stopped' }))
  await host.call(put('/power', { state: 'stopped' }))
  await host.call(put('/power?dry_run=true', { state: 'running' }))
  await host.call({ method: 'DELETE', path: '/v1/vms/web-1' })
  await host.call({ method: 'DELETE', path: '/v1/vms/web-9' })
  assert.deepEqual(trail(host).slice(1).map(outcomeOf), [
    ['setVmPower', 'accepted', 202, undefined, 1, 2],
    ['setVmPower', 'unchanged', 200, undefined, 2, 2],
    ['setVmPower', 'rehearsed', 200, undefined, 2, 2],
    ['deleteVm', 'accepted', 202, undefined, 2, 3],
    ['deleteVm', 'unchanged', 204, undefined, undefined, undefined],
  ])
})

test('refused mutations are in the trail with their code, wherever they were refused; reads are not', async (t) => {
  const host = await startControllerHost(t, pki)
  await host.call(put('', createBody()))
  const other = await pki.issue({ commonName: 'somebody' })
  const client = { ...clientWith(pki, other), agent: new Agent() }
  await host.call(put('/power', { state: 'sideways' }))
  await host.call(put('', createBody({ disk: { size_mib: 4096 } })))
  await host.call(put('/power', { state: 'stopped' }, { headers: { 'if-match': '"x"' } }))
  await send(host.port, put('/power', { state: 'stopped' }, { client }))
  await host.call({ method: 'POST', path: '/v1/vms' })
  await host.call({ method: 'PUT', path: '/v1/vms/%zz' })
  await host.call({ path: '/v1/vms/web-1' })
  const lines = trail(host).slice(1)
  assert.deepEqual(lines.map(outcomeOf), [
    ['setVmPower', 'refused', 400, 'invalid_request', 1, 1],
    ['createVm', 'refused', 409, 'conflict', 1, 1],
    ['setVmPower', 'refused', 412, 'precondition_failed', 1, 1],
    ['setVmPower', 'refused', 403, 'forbidden', 1, 1],
    [undefined, 'refused', 405, 'method_not_allowed', undefined, undefined],
    [undefined, 'refused', 400, 'invalid_request', undefined, undefined],
  ])
  const { certificate_name, certificate_serial } = lines[3]
  assert.deepEqual([certificate_name, certificate_serial], ['somebody', serialOf(other.certificate)])
})

test('snapshots and images are named, and a snapshot that is gone has no revision after it', async (t) => {
  const host = await startControllerHost(t, pki)
  await host.call(put('', createBody()))
  await host.call({ method: 'PUT', path: '/v1/snapshots/snap-1', body: startBody() })
  await host.call({ method: 'DELETE', path: '/v1/snapshots/snap-1' })
  await host.call({ method: 'DELETE', path: '/v1/snapshots/snap-1' })
  await host.call({ method: 'DELETE', path: `/v1/images/${SHA}` })
  const [started, removed, again, image] = trail(host).slice(1)
  assert.deepEqual([started.snapshot_id, started.vm_id, started.outcome], ['snap-1', 'web-1', 'accepted'])
  assert.equal(removed.revision_before, started.revision_after)
  assert.deepEqual([removed.vm_id, removed.outcome, removed.revision_after], ['web-1', 'accepted', undefined])
  assert.equal(again.outcome, 'unchanged')
  assert.deepEqual([image.action, image.image_sha256, image.code], ['deleteImage', SHA, 'image_in_use'])
})

test('a client that leaves before its answer is in the trail all the same', async (t) => {
  const host = await startControllerHost(t, pki)
  await host.call(put('', createBody()))
  const { certificate: cert, key } = pki.controller
  const options = { port: host.port, host: '127.0.0.1', ca: pki.authority.certificate, cert, key }
  const socket = tlsConnect(options)
  await once(socket, 'secureConnect')
  const body = JSON.stringify({ state: 'stopped' })
  const head = 'PUT /v1/vms/web-1/power HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n'
  socket.write(`${head}content-length: ${body.length}\r\n\r\n${body}`, () => socket.destroy())
  await eventually(() => trail(host).length === 2)
  assert.deepEqual(outcomeOf(trail(host)[1]), ['setVmPower', 'accepted', 202, undefined, 1, 2])
})

test('a console that was opened or refused is in the trail', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  await startConsole(host)
  await watch(t, host, pki)
  await host.call({ path: '/v1/vms/web-1/console' })
  const [, opened, refused] = trail(host)
  const { action, mode, vm_id, outcome, certificate_serial, message } = opened
  assert.deepEqual(
    { action, mode, vm_id, outcome, certificate_serial, message },
    {
      action: 'openConsole',
      mode: 'tty',
      vm_id: 'web-1',
      outcome: 'accepted',
      certificate_serial: serialOf(pki.controller.certificate),
      message: 'console opened',
    },
  )
  assert.deepEqual([refused.action, refused.outcome, refused.status], ['openConsole', 'refused', 426])
})

test('what another host asks for is in the trail with the certificate of its node', async (t) => {
  const host = await startCoordinationHost(t, pki)
  const node = await pki.issue({ commonName: 'host-2', usages: ['server', 'client'] })
  const path = '/v1/migrations/move-web-1/abort'
  const body = { destination_id: 'store-2' }
  await host.call({ method: 'POST', path, body, client: clientWith(pki, node) })
  const [line] = trail(host)
  const { action, migration_id, certificate_name, certificate_serial, outcome } = line
  assert.deepEqual(
    { action, migration_id, certificate_name, certificate_serial, outcome },
    {
      action: 'abortMigration',
      migration_id: 'move-web-1',
      certificate_name: 'host-2',
      certificate_serial: serialOf(node.certificate),
      outcome: 'refused',
    },
  )
})
