/** Documents that the installed executable serves without the sources that it was built from. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { get } from 'node:https'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { controllerIdentity, nodeIdentity } from '../../lab/inside/controller.ts'
import { mainPid, sh } from '../../lab/inside/shell.ts'
import { sharedHost } from './shared-host.ts'

const EXECUTABLE = '/usr/bin/vmhostd'
const checkout = new URL('../..', import.meta.url).pathname

sharedHost()

type Page = { readonly status: number | undefined; readonly type: string | undefined; readonly body: string }

const controller = { port: 9000, identity: controllerIdentity }
const otherHost = { port: 9001, identity: nodeIdentity }

async function page(path: string, { port, identity } = controller): Promise<Page> {
  const { promise, resolve, reject } = Promise.withResolvers<Page>()
  get({ host: 'localhost', port, path, agent: false, ...identity() }, (response) => {
    const { statusCode: status, headers } = response
    text(response).then((body) => resolve({ status, type: headers['content-type'], body }), reject)
  }).on('error', reject)
  return promise
}

/** Lists every directory in which Node would search for packages of a program at `file`. */
function* packageFolders(file: string): Generator<string> {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    yield join(folder, 'node_modules')
    if (folder === '/') return
  }
}

test('no packages are in reach of the installed executable', async () => {
  const pid = await mainPid('vmhostd')
  assert.equal(readlinkSync(`/proc/${pid}/exe`), EXECUTABLE)
  assert.equal(readlinkSync(`/proc/${pid}/cwd`), '/')
  assert.deepEqual([...packageFolders(EXECUTABLE)].filter(existsSync), [])
})

test('the installed daemon serves its reference', async () => {
  const { status, type, body } = await page('/docs')
  assert.deepEqual([status, type], [200, 'text/html; charset=utf-8'])
  assert.match(body, /src="\/docs\/scalar\.js"/)
})

test('the installed daemon serves the script of its reference as it was built in', async () => {
  const { status, type, body } = await page('/docs/scalar.js')
  assert.equal(status, 200)
  assert.match(type ?? '', /^text\/javascript/)
  const source = join(checkout, 'node_modules/@scalar/api-reference/dist/browser/standalone.js')
  assert.ok(body === readFileSync(source, 'utf8'), 'it is another script')
})

test('the installed daemon serves all of its error codes', async () => {
  const { status, type, body } = await page('/docs/errors')
  assert.deepEqual([status, type], [200, 'text/html; charset=utf-8'])
  const codes = readFileSync(join(checkout, 'docs/errors.md'), 'utf8').matchAll(/^\| `([a-z0-9_]+)` \|/gm)
  const missing = [...codes].map(([, code]) => code).filter((code) => !body.includes(`id="${code}"`))
  assert.deepEqual(missing, [])
})

test('the installed daemon serves its OpenAPI document', async () => {
  const { status, type, body } = await page('/docs/swagger.json')
  assert.equal(status, 200)
  assert.match(type ?? '', /^application\/json/)
  const document = JSON.parse(body) as { openapi: string; paths: Record<string, unknown> }
  assert.match(document.openapi, /^3\.1\./)
  for (const path of ['/v1/vms/{id}', '/v1/vms/{id}/power', '/v1/sync', '/docs/swagger.json'])
    assert.ok(path in document.paths, `${path} is not described`)
})

test('the installed daemon listens for other hosts, and each port refuses the certificate of the other', async () => {
  const { status, body } = await page('/docs/coordination.json', otherHost)
  assert.equal(status, 200)
  assert.ok('/v1/migrations/{id}' in (JSON.parse(body) as { paths: object }).paths)
  assert.equal((await page('/docs/errors', otherHost)).status, 200)
  assert.equal((await page('/healthz', { port: 9001, identity: controllerIdentity })).status, 403)
  assert.equal((await page('/healthz', { port: 9000, identity: nodeIdentity })).status, 403)
  const log = await sh('journalctl', '--unit=vmhostd', '--boot', '--output=cat', '--grep=listening')
  for (const port of [9000, 9001]) assert.match(log, new RegExp(`"port":${port},.*"message":"listening"`))
})
