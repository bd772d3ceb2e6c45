import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request as httpsRequest } from 'node:https'
import { before, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { limits } from '../../src/config/limits.ts'
import { makePki, startControllerHost } from './support/controller-host.ts'
import { eventually } from './support/eventually.ts'
import type { IncomingMessage } from 'node:http'
import type { TestContext } from 'node:test'
import type { EventBody } from '../../src/core/events/event.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** Together more than the kernel buffers for one connection (tcp(7), tcp_rmem and tcp_wmem). */
const EVENTS = 2000
const DETAIL_BYTES = 10_000
const large: EventBody = {
  kind: 'admission_refused',
  vmId: 'web-1' as VmId,
  code: 'insufficient_capacity',
  detail: 'x'.repeat(DETAIL_BYTES),
}

/** Opens a stream of all events; nothing is read from it but what Node reads ahead. */
async function openStream(t: TestContext, { port }: ControllerHost): Promise<IncomingMessage> {
  const sent = httpsRequest({
    host: '127.0.0.1',
    port,
    path: '/v1/events?after=0',
    ca: pki.authority.certificate,
    cert: pki.controller.certificate,
    key: pki.controller.key,
    agent: false,
  }).end()
  t.after(() => sent.destroy())
  sent.on('error', () => {})
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return response
}

/**
 * Lets time pass for timers alone until a line is logged; gives up after as many turns as a test that fails may take.
 */
async function passTimeUntilLogged(
  t: TestContext,
  { logLines }: ControllerHost,
  words: string,
): Promise<void> {
  for (let turns = 0; turns < 1_000_000; turns += 1) {
    if (logLines.some((line) => line.includes(words))) return
    t.mock.timers.tick(limits.eventReaderStallMs / 1000)
    await turn()
  }
  throw new Error(`not logged: ${words}`)
}

test('the connection of a reader of events that does not read is ended', async (t) => {
  const host = await startControllerHost(t, pki)
  host.store.events.add(1, ...Array.from({ length: EVENTS }, () => large))
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const stream = await openStream(t, host)
  await passTimeUntilLogged(t, host, 'event reader stalled')
  t.mock.timers.reset()
  // Only a socket that is read shows its end.
  let bytes = 0
  stream.on('error', () => {})
  stream.on('data', (chunk: Buffer) => (bytes += chunk.length))
  await eventually(() => stream.closed || bytes > EVENTS * DETAIL_BYTES)
  assert.ok(stream.closed && !stream.complete, `${bytes} bytes came`)
})
