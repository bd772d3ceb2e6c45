import assert from 'node:assert/strict'
import { accessSync } from 'node:fs'
import { createConnection } from 'node:net'
import { before, test } from 'node:test'
import { createControllerApp } from '../../src/api/controller/create-app.ts'
import { plainTransport } from '../../src/api/listener/transports.ts'
import { beginsUpgrade } from '../../src/api/controller/upgrade.ts'
import { HostFault } from '../../src/core/errors.ts'
import { faults, rejections } from '../../src/core/problems/catalogue.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { createBody, offerBody, makePki, SHA, startControllerHost } from './support/controller-host.ts'
import { completeUrl, createVm, NIGHTLY, partUrls, start, startBody } from './support/snapshots.ts'
import type { App } from '../../src/api/listener/app.ts'
import type { FaultCode } from '../../src/core/errors.ts'
import type { Generation, VmId } from '../../src/core/ids.ts'
import type { ControllerHost, Pki } from './support/controller-host.ts'
import type { OpenApi } from './support/documented.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const CANARY = 'Canary41c8'
const id = 'web-1' as VmId
const codes = Object.keys(faults) as FaultCode[]

/** Creates a directory or file of each kind that the daemon works in. */
const paths: readonly string[] = [
  `/var/lib/${CANARY}-state/vmhostd.db`,
  `/run/${CANARY}-run/vm/web-1/qmp.sock`,
  `/srv/${CANARY}-pool/vms/web-1/disk.raw`,
  `/opt/${CANARY}-program/qemu-system-x86_64`,
  `/run/${CANARY}-run/console/web-1`,
  `/etc/${CANARY}-config/config.toml`,
  `/srv/${CANARY} with a space/disk.raw`,
]

const thrownBy = (call: () => void): unknown => {
  try {
    call()
  } catch (error) {
    return error
  }
  return undefined
}

const refusedConnection = (path: string): Promise<unknown> =>
  new Promise((resolve) => createConnection(path).on('error', resolve))

/** Returns causes like those that drivers chain to their faults: real errors of Node, and output of programs. */
async function causesOf(path: string): Promise<readonly unknown[]> {
  const program = path.replaceAll(' ', '')
  return [
    thrownBy(() => accessSync(path)),
    await refusedConnection(program),
    new Error(`spawn ${program} ENOENT`),
    new Error(`Could not open '${path}': Permission denied`),
    new Error(`-drive file=${program},format=raw: Could not open "${path}"`),
    new Error(`the unit's program (${program}) is not there`),
    `${program}: Permission denied`,
  ]
}

async function messageOf(code: FaultCode): Promise<string> {
  const causes = (await Promise.all(paths.map(causesOf))).flat()
  return causes.map((cause) => errorChain(new HostFault(code, faults[code].example, { cause }))).join('; ')
}

/** Sets `message` in every part of the daemon whose words appear in answers. */
function sayEverywhere(host: ControllerHost, code: FaultCode, message: string): void {
  const fault = {
    ...{ code, message, step: 'storage.inspect', generation: 1 as Generation },
    ...{ sinceMs: 1, attempt: 1, nextAttemptAtMs: 1 },
  }
  const partialFaults = [{ step: 'console.inspect', code, message: `it is not whole: ${message}` }]
  host.store.vms.recordProgress(id, {
    observed: { state: 'failed', sinceMs: 1, fault, partialFaults },
    nowMs: 1,
  })
  host.store.snapshots.advance(NIGHTLY, {
    trouble: { code, message, sinceMs: 1, attempt: 1, nextAttemptAtMs: 1 },
    nowMs: 1,
  })
  const refuse = (): never => {
    throw new HostFault(code, message)
  }
  const { capacity } = host
  for (const look of ['allocatableMemoryMib', 'allocatableDiskMib', 'hostAddresses'] as const)
    Object.assign(capacity, { [look]: () => ({ known: false, code, retry: 'backoff', message }) })
  Object.assign(host.dependencies, {
    counters: refuse,
    hostView: refuse,
    images: { list: refuse, requestRemoval: refuse },
    plan: async () => ({ outcome: 'blocked', step: 'storage.inspect', code, because: message }),
  })
}

const bodies: Readonly<Record<string, unknown>> = {
  'put /v1/vms/{id}': createBody(),
  'put /v1/vms/{id}/power': { state: 'stopped' },
  'put /v1/vms/{id}/compute': { cpu_millicores: 1000, memory_mib: 1024, sleep_after_idle_seconds: 0 },
  'put /v1/vms/{id}/resize': {
    ...{ cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 0 },
    disk: { size_mib: 9000 },
  },
  'put /v1/vms/{id}/disk': { size_mib: 9000 },
  'put /v1/vms/{id}/network': { ipv4_address: '192.0.2.77' },
  'put /v1/vms/{id}/metadata': { labels: {}, protected: false },
  'post /v1/vms/{id}/reboot': {},
  'put /v1/vms/{id}/exit': { restart_policy: 'never' },
  'put /v1/vms/{id}/keep-awake': { until: null },
  'put /v1/vms/{id}/readiness': { check: { protocol: 'tcp', port: 22 } },
  'put /v1/vms/{id}/boot': { kernel_arguments: 'quiet' },
  'post /v1/vms/{id}/rebuild': { rootfs: { url: 'https://images.example.net/r', sha256: SHA } },
  'put /v1/vms/{id}/seed': { ssh_authorized_keys: [] },
  'put /v1/vms/{id}/migration': offerBody(),
  'put /v1/vms/{id}/arrival': { migration_id: 'move-1', source_url: 'https://192.0.2.1:9001' },
  'put /v1/maintenance': { state: 'schedulable' },
  'put /v1/snapshots/{id}': startBody(),
  'put /v1/snapshots/{id}/upload': { part_urls: partUrls(1) },
  'post /v1/snapshots/{id}/complete': { complete_url: completeUrl() },
}

/** Every route of the document, on an existing VM and snapshot; mutations are dry runs if possible. */
function callsOf({ paths: routes }: OpenApi) {
  return Object.entries(routes).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => {
      const target = path.includes('snapshots') ? NIGHTLY : id
      const dry = method !== 'get' && path.startsWith('/v1/vms') ? '?dry_run=true' : ''
      // A stream without an end has no answer to look at.
      const query = path === '/v1/events' ? '?after=0&follow=false' : dry
      const url = path.replace('{id}', target).replace('{sha256}', SHA) + query
      const payload = bodies[`${method} ${path}`]
      assert.ok(
        payload !== undefined || ['get', 'head', 'delete'].includes(method),
        `${method} ${path} has no body here`,
      )
      return { method: method.toUpperCase(), url, ...(payload === undefined ? {} : { payload }) }
    }),
  )
}

async function answersOf(app: App, document: OpenApi): Promise<readonly string[]> {
  // In order, because the deletion of the snapshot comes last.
  const calls = callsOf(document).toSorted(
    (a, b) => Number(a.method === 'DELETE') - Number(b.method === 'DELETE'),
  )
  const texts: string[] = []
  for (const call of calls) {
    if (call.method === 'DELETE' && call.url.includes('snapshots')) continue
    const { statusCode, body, headers } = await app.inject(call as object)
    texts.push(`${call.method} ${call.url}: ${statusCode} ${body} ${JSON.stringify(headers)}`)
  }
  return texts
}

test('no answer of any route has a path of the host, whatever fault contains one', async (t) => {
  const host = await startControllerHost(t, pki)
  const app = await createControllerApp(host.dependencies, plainTransport(beginsUpgrade))
  t.after(() => app.close())
  await createVm(host)
  await start(host)
  const document: OpenApi = (await app.inject('/docs/swagger.json')).json()
  const seen = new Map<string, number>()
  for (const code of codes) {
    sayEverywhere(host, code, await messageOf(code))
    for (const text of await answersOf(app, document)) {
      assert.ok(!text.includes(CANARY), text.slice(0, 4000))
      if (!text.includes('[path]')) continue
      const route = text.slice(0, text.indexOf(':'))
      seen.set(route, (seen.get(route) ?? 0) + 1)
    }
  }
  // These routes report faults of the host; the rest of the message is still there.
  for (const route of [
    ...['GET /v1/sync', 'GET /v1/vms', `GET /v1/vms/${id}`, `GET /v1/vms/${id}/plan`],
    ...[`GET /v1/vms/${id}/counters`, 'GET /v1/images'],
    ...['GET /v1/snapshots', `GET /v1/snapshots/${NIGHTLY}`, `PUT /v1/vms/${id}/power?dry_run=true`],
    `PUT /v1/vms/${id}/disk?dry_run=true`,
    ...['GET /v1/events?after=0&follow=false', `GET /v1/vms/${id}/events`],
  ])
    assert.equal(seen.get(route), codes.length, route)
})

test('the log keeps the path that a 503 leaves out', async (t) => {
  const host = await startControllerHost(t, pki)
  const cause = await refusedConnection(`/run/${CANARY}`)
  host.figures.break(
    'pool',
    new HostFault('storage_inspection_failed', 'measuring the storage pool', { cause }),
  )
  const answer = await host.call({ path: '/v1/sync' })
  assert.equal(answer.status, 503)
  assert.equal(answer.json.detail, 'measuring the storage pool: connect ENOENT [path]')
  const line = host.logLines.find((text) => text.includes(answer.json.request_id)) ?? ''
  assert.equal(JSON.parse(line).error.message, `measuring the storage pool: connect ENOENT /run/${CANARY}`)
})

test('no published example has a path of the host', () => {
  for (const [code, { example }] of Object.entries({ ...rejections, ...faults }))
    assert.doesNotMatch(example, /\s\/(?!v1|docs|compute)/, code)
})
