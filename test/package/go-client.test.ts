import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { buildClients } from '../../tools/clients/clients.ts'
import { checkout, distPath } from '../../tools/paths.ts'
import { run, runChecked } from '../../tools/process.ts'
import { createBody, makePki, startControllerHost } from '../daemon/support/controller-host.ts'
import { reachOf, startOddDaemon } from './support/odd-daemon.ts'
import type { Json, Pki } from '../daemon/support/controller-host.ts'

/** Go as it is installed: without a download of another version or of a module. */
const env = { ...process.env, GOTOOLCHAIN: 'local', GOPROXY: 'off', GOWORK: 'off', GOFLAGS: '' }
const { stdout } = await run(['go', 'version'], { env })
const [, major = 0, minor = 0] = /\bgo(\d+)\.(\d+)/.exec(stdout) ?? []
const skip = Number(major) * 100 + Number(minor) < 124 && 'Go 1.24 is not installed'

const folder = mkdtempSync(join(distPath(), 'go-user-'))
after(() => rmSync(folder, { recursive: true }))

/** Unpacked inside the module of its user, as the README says. */
const client = join(folder, 'vmhostd-client-go-1.2.3')

let pki: Pki
before(async () => {
  if (skip !== false) return
  pki = await makePki()
  await buildClients(folder, { version: '1.2.3', date: new Date(0) })
  await runChecked(['tar', '--extract', '--file', `${client}.tar.gz`, '--directory', folder])
  cpSync(join(checkout, 'test/package/support/go-user/main.go'), join(folder, 'main.go'))
  const at = { cwd: folder, env }
  await runChecked(['go', 'mod', 'init', 'user'], at)
  const replace = '-replace=example.org/vmhostd=./vmhostd-client-go-1.2.3'
  await runChecked(['go', 'mod', 'edit', '-require=example.org/vmhostd@v0.0.0', replace], at)
  await runChecked(['go', 'build', '-o', 'program', '.'], at)
})

/** Runs a part of the program, and returns what it printed. */
async function runPart(part: string, port: number, more: Readonly<Record<string, unknown>>): Promise<Json> {
  const stage = { ...reachOf(port, pki, folder), part, ...more }
  const of = { ...env, STAGE: JSON.stringify(stage) }
  return JSON.parse(await runChecked([join(folder, 'program')], { env: of }))
}

test('the client for Go is formatted, and go vet finds nothing in it', { skip }, async () => {
  assert.equal(await runChecked(['gofmt', '-d', '.'], { cwd: client, env }), '')
  await runChecked(['go', 'vet', './...'], { cwd: client, env })
})

test('a Go program creates a VM, reads it, and is refused as the API says', { skip }, async (t) => {
  const { port } = await startControllerHost(t, pki)
  assert.deepEqual(await runPart('use', port, { body: createBody() }), {
    missing: 'not_found 404 0s',
    invalid: 'invalid_request 400 0s',
    made: 202,
    kept: 'vm_protected 409 0s',
    dots: ['invalid_request 400 0s', 'invalid_request 400 0s'],
    stale: 'precondition_failed 412 0s',
    labels: { tier: 'web' },
    unchanged: 304,
    events: ['vm_created'],
    list: { part_urls: [] },
    servers: { name_servers: [] },
  })
})

/** The outcome of each call, by the part of the program that makes it and the name that it asks for. */
const EXPECTED = {
  ask: {
    moved: 'unexpected 302',
    'moved-for-good': 'unexpected 308',
    unchanged: '304 without data',
    busy: 'starting_up 503 7s',
    refused: 'starting_up 409 0s',
    'other-problem': 'unexpected 502',
    'not-text': 'unexpected 200',
    cut: 'lost',
    'cut-chunk': 'lost',
    endless: 'unexpected 200',
    'endless-refusal': 'unexpected 500',
  },
  logs: { 'wrote-nothing': '200 with 2 bytes', endless: 'unexpected 200', cut: 'lost' },
  events: {
    'two-starts': [
      'start 3 false, after 3',
      'event 4, after 4',
      'after 9',
      'start 20 true, after 20',
      'event 21, after 21',
      'end',
    ],
    'stream-cut': ['start 3 false, after 3', 'event 4, after 4', 'lost'],
    'stream-silent': ['start 3 false, after 3', 'after 8', 'silent'],
    'stream-of-one-line': ['unexpected 200'],
    'stream-of-one-message': ['unexpected 200'],
    'stream-of-page': ['unexpected 200'],
    busy: ['starting_up 503 7s'],
  },
}

test(
  'in Go, a request on a connection that has ended is repeated only if the repeat has the same outcome',
  { skip },
  async (t) => {
    const port = await startOddDaemon(t, pki)
    const once = ['202', 'lost']
    assert.deepEqual(await runPart('repeat', port, { names: ['closing'] }), {
      'closing metadata': ['202', '202'],
      'closing metadata "7"': once,
      'closing reboot': once,
      'closing reboot "7"': once,
      'closing rebuild': once,
      'closing rebuild "7"': once,
    })
  },
)

for (const [part, expected] of Object.entries(EXPECTED))
  test(`in Go, what becomes of answers that no daemon in order sends: ${part}`, { skip }, async (t) => {
    const port = await startOddDaemon(t, pki)
    assert.deepEqual(await runPart(part, port, { names: Object.keys(expected) }), expected)
  })
