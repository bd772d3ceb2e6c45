/** Provokes problems whose detail is the example of the catalogue, letter by letter. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { rejections } from '../../src/core/problems/catalogue.ts'
import { createBody, makePki, offerBody, startControllerHost } from './support/controller-host.ts'
import type { RejectionCode } from '../../src/core/errors.ts'
import type { Call, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const VM = '/v1/vms/web-1'
const put = (path: string, body: unknown): Call => ({ method: 'PUT', path, body })
const compute = { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 0 }
const network = { ipv4_address: '192.0.2.11' }
const withoutNetwork = { ...createBody(), network: undefined }

/** A request that makes something, or one that is refused with a code. In this order. */
const requests: readonly (readonly [RejectionCode | 'made', Call])[] = [
  ['not_found', { path: VM }],
  ['changes_not_kept', { path: '/v1/vms?changed_after=1893456000000012' }],
  ['method_not_allowed', { method: 'POST', path: VM }],
  ['unsupported_media_type', { ...put(VM, 'x'), headers: { 'content-type': 'text/plain' } }],
  ['body_too_large', put(VM, 'x'.repeat(limits.bodyBytesMax + 1))],
  ['headers_too_large', { path: VM, headers: { 'x-long': 'x'.repeat(limits.headerBytesMax) } }],
  ['invalid_request', put(VM, createBody({ compute: { ...compute, cpu_millicores: 50 } }))],
  [
    'sleep_needs_network',
    put(VM, { ...withoutNetwork, compute: { ...compute, sleep_after_idle_seconds: 60 } }),
  ],
  ['made', put('/v1/maintenance', { state: 'cordoned', reason: 'kernel-6.12' })],
  ['host_cordoned', put(VM, createBody())],
  ['made', put('/v1/maintenance', { state: 'schedulable' })],
  ['made', put('/v1/vms/web-2', createBody())],
  ['address_in_use', put(VM, createBody())],
  ['made', put(VM, createBody({ network }))],
  ['conflict', put(VM, createBody({ network, disk: { size_mib: 4096 } }))],
  ['disk_shrink', put(`${VM}/disk`, { size_mib: 1024 })],
  ['made', put(`${VM}/migration`, offerBody())],
  ['vm_migrating', put(`${VM}/power`, { state: 'paused' })],
  ['made', { method: 'DELETE', path: `${VM}/migration` }],
  ['migration_ended', put(`${VM}/migration`, offerBody())],
  ['made', put(`${VM}/metadata`, { labels: {}, protected: true })],
  ['vm_protected', { method: 'DELETE', path: VM }],
  ['made', put(`${VM}/metadata`, { labels: {}, protected: false })],
  ['made', { method: 'DELETE', path: VM }],
  ['vm_deleting', put(`${VM}/power`, { state: 'stopped' })],
]

test('the daemon answers with the examples of the catalogue', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const [code, request] of requests) {
    const { status, json } = await host.call(request)
    if (code === 'made') assert.ok(status < 300, `${request.path}: ${json.detail}`)
    else assert.deepEqual([json.code, json.detail], [code, rejections[code].example])
  }
  host.storeIsOpen = false
  const { json } = await host.call({ path: VM })
  assert.equal(json.detail, rejections.starting_up.example)
})
