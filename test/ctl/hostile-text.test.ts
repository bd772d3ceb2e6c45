import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import { buffer } from 'node:stream/consumers'
import { before, test } from 'node:test'
import { createHttpsFetch } from '../../src/client/https-fetch.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { start } from '../daemon/support/snapshots.ts'
import { ctl, startCtlStage, writeProfile } from './support/ctl-stage.ts'
import { create, settle } from './support/vms.ts'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { CtlStage } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/**
 * Sets the clipboard of some terminals (OSC 52), begins a sequence with one character (CSI), and turns the direction of
 * what follows. In JSON.
 */
const ESCAPES = String.raw`\u001b]52;c;cm0=\u0007\u009b31m\u202e`

/** Names and texts of the daemon, behind which the escape sequences are put. */
const SPOILED = /\b(?:web-1|nightly-1|host-1|kernel-work)\b|"text":"/g

/** Serves the answers of a daemon with escape sequences in them; returns the profile for it. */
async function spoil(t: TestContext, { host }: CtlStage): Promise<string> {
  const { authority, server: pair, controller } = pki
  const daemon = `https://127.0.0.1:${host.port}`
  const fetch = createHttpsFetch({
    ca: authority.certificate,
    cert: controller.certificate,
    key: controller.key,
  })
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = 'GET', url = '' } = request
    const content = await buffer(request)
    const { 'content-type': type = 'application/json' } = request.headers
    const body = content.length === 0 ? null : content
    const asked = new Request(`${daemon}${url}`, { method, body, headers: { 'content-type': type } })
    const plain = await fetch(asked)
    const text = (await plain.text()).replaceAll(SPOILED, (found) => found + ESCAPES)
    const headers = { 'content-type': plain.headers.get('content-type') ?? '', etag: '"1"' }
    response.writeHead(plain.status, headers).end(text)
  }
  const server = createServer({ cert: pair.certificate, key: pair.key }, (request, response) => {
    void answer(request, response)
  }).listen(0, '127.0.0.1')
  t.after(() => {
    fetch.close()
    server.close()
  })
  await once(server, 'listening')
  return writeProfile(t, { pki, url: `https://127.0.0.1:${(server.address() as AddressInfo).port}` })
}

test('no text of a daemon reaches the terminal with an escape sequence or a change of direction in it', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  settle(stage, 'web-1')
  await start(stage.host)
  await stage.run('host cordon --reason kernel-work')
  const profile = await spoil(t, stage)
  const unclean: string[] = []
  for (const line of [
    'vm get web-1',
    'vm plan web-1',
    'vm set web-1 --label a=b --dry-run',
    'vm set web-1 --label a=b',
    'vm stop web-1 --dry-run',
    'vm wait web-1 --timeout 0',
    'vm stop web-1',
    'events',
    'sync',
    'snapshot get nightly-1',
    'host status',
    'host cordon --reason kernel-work',
  ]) {
    const { out, err } = await ctl([...line.split(' '), '--profile', profile])
    assert.notEqual(out, '', `${line}: ${err}`)
    if (/[\p{Cc}\p{Bidi_Control}]/u.test((out + err).replaceAll('\n', ''))) unclean.push(line)
  }
  assert.deepEqual(unclean, [])
})
