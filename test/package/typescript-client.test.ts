import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { buildClients } from '../../tools/clients/clients.ts'
import { checkout, distPath } from '../../tools/paths.ts'
import { runChecked } from '../../tools/process.ts'
import { createBody, makePki, startControllerHost } from '../daemon/support/controller-host.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

/** A program of a user: TypeScript that has nothing but the released client. */
const PROGRAM = `
import { answered, ApiProblem, ConnectionFailed, createApiClient, mayPass, readEvents } from 'vmhostd-client'
import type { Connection, CreateVm, FaultCode, ProblemCode, Vm } from 'vmhostd-client'

const { connection, body } = JSON.parse(process.env['STAGE'] ?? '') as { connection: Connection; body: CreateVm }
const client = createApiClient(connection)
const at = { params: { path: { id: 'web-1' } } }

async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call
  } catch (error) {
    if (error instanceof ConnectionFailed) return mayPass(error) ? 'later' : error.kind
    if (error instanceof ApiProblem) return error.code
    throw error
  }
  return 'none'
}

// @ts-expect-error A VM needs an image.
const wrong: CreateVm = { compute: body.compute, disk: body.disk }

const codes: readonly ProblemCode[] = ['not_found', 'storage_full' satisfies FaultCode]
// @ts-expect-error No problem has this code.
const misspelt: ProblemCode = 'not_fuond'

const missing = await codeOf(answered(client.GET('/v1/vms/{id}', at)))
const invalid = await codeOf(answered(client.PUT('/v1/vms/{id}', { ...at, body: wrong })))
const made = await answered(client.PUT('/v1/vms/{id}', { ...at, body }))
const metadata = { labels: { tier: 'web' }, protected: true }
await answered(client.PUT('/v1/vms/{id}/metadata', { ...at, body: metadata }))
const kept = await codeOf(answered(client.DELETE('/v1/vms/{id}', at)))
const headers = { 'if-match': made.etag }
const stale = await codeOf(
  answered(client.PUT('/v1/vms/{id}/metadata', { ...at, headers, body: { labels: {} } })),
)
const vm: Vm = (await answered(client.GET('/v1/vms/{id}', at))).data
const { items } = (await answered(client.GET('/v1/vms', { params: { query: { label: 'tier=web' } } }))).data
const kinds: string[] = []
for await (const sight of readEvents(connection, { after: 0, follow: false, signal: new AbortController().signal }))
  kinds.push(sight.kind === 'event' ? sight.event.kind : sight.kind)
client.close()
const listed = items.map(({ id }) => id)
const away = createApiClient({ ...connection, url: 'https://127.0.0.1:9' })
const refused = await codeOf(answered(away.GET('/v1/vms')))
console.log(JSON.stringify({ refused, known: codes.length, misspelt, missing, invalid, status: made.status, kept, stale, labels: vm.labels, listed, kinds }))
`

const folder = mkdtempSync(join(distPath(), 'client-user-'))
after(() => rmSync(folder, { recursive: true }))

let pki: Pki
before(async () => {
  pki = await makePki()
  const archives = await buildClients(folder, { version: '1.2.3', date: new Date(0) })
  const archive = archives.find((name) => name.includes('typescript')) ?? ''
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, '@types'), { recursive: true })
  await runChecked(['tar', '--extract', '--file', archive, '--directory', modules])
  symlinkSync('package', join(modules, 'vmhostd-client'))
  for (const name of ['openapi-fetch', '@types/node'])
    symlinkSync(join(checkout, 'node_modules', name), join(modules, name))
})

test('a program with the released client compiles, creates a VM, reads it, and is refused as the API says', async (t) => {
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(folder, 'program.ts'), PROGRAM)
  const options = [
    '--ignoreConfig',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--types',
    'node',
  ]
  const compiler = join(checkout, 'node_modules/.bin/tsc')
  await runChecked([compiler, ...options, 'program.ts'], { cwd: folder })

  const { port } = await startControllerHost(t, pki)
  const connection = {
    url: `https://127.0.0.1:${port}`,
    ca: pki.authority.certificate,
    cert: pki.controller.certificate,
    key: pki.controller.key,
  }
  const env = { ...process.env, STAGE: JSON.stringify({ connection, body: createBody() }) }
  const printed = await runChecked([process.execPath, 'program.js'], { cwd: folder, env })
  assert.deepEqual(JSON.parse(printed), {
    refused: 'later',
    known: 2,
    misspelt: 'not_fuond',
    missing: 'not_found',
    invalid: 'invalid_request',
    status: 202,
    kept: 'vm_protected',
    stale: 'precondition_failed',
    labels: { tier: 'web' },
    listed: ['web-1'],
    kinds: ['start', 'vm_created'],
  })
})
