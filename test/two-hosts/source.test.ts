/** The source's side of a migration on a real host: what the node of an offer gets with its certificate. */
import assert from 'node:assert/strict'
import { createReadStream } from 'node:fs'
import { test } from 'node:test'
import { FrameDecoder } from '../../src/core/migration/frame-decoder.ts'
import { streamChecks } from '../../src/host/rounds/stream-checks.ts'
import { atEnd } from '../contract/at-end.ts'
import { offer, seen } from './move.ts'
import { skip, TLS } from './lab-host.ts'
import { MovingGuest } from './moving-guest.ts'
import { both, twoHosts } from './two-hosts-stage.ts'
import type { LabHost } from './lab-host.ts'

const VM = 'left'
const MIGRATION = 'move-left-1'
const MOVE = { arrival: 'attempt-1' }
const FILE = '/var/tmp/stream'

twoHosts()

/** Sends a request as the second node to the first. Returns the body. */
function sent(second: LabHost, first: LabHost, path: string, ...more: string[]): Promise<string> {
  const files = ['--cacert', `${TLS}/nodes-ca.crt`, '--cert', `${TLS}/node.crt`, '--key', `${TLS}/node.key`]
  const url = `https://${first.address}:9001/v1/migrations/${MIGRATION}/${path}`
  return second.run('curl', '--silent', '--fail-with-body', '--max-time', '60', ...files, ...more, url)
}

type Json = Readonly<Record<string, unknown>>

async function posted(second: LabHost, first: LabHost, path: string, body: object): Promise<Json> {
  const json = ['--header', 'content-type: application/json', '--data', JSON.stringify({ ...MOVE, ...body })]
  return JSON.parse(await sent(second, first, path, ...json)) as Json
}

/** Returns the bytes of data in a stream, which must be whole. */
async function dataBytes(second: LabHost, first: LabHost, path: string, sizeBytes: number): Promise<number> {
  await sent(second, first, `${path}?arrival=${MOVE.arrival}`, '--output', FILE)
  const decoder = new FrameDecoder({ sizeBytes, checks: streamChecks })
  let bytes = 0
  for await (const chunk of createReadStream(second.root + FILE) as AsyncIterable<Buffer>)
    for (const { kind, length } of decoder.push(chunk)) if (kind === 'data') bytes += length
  assert.ok(decoder.isWhole, `${path} is not whole`)
  return bytes
}

test('a node copies a running guest, has it handed over and gives it back', { skip }, async (t) => {
  const { first, second } = both()
  const guest = await MovingGuest.boot(VM, '198.51.100.20', { first, second })
  atEnd(t, () => guest.client.close())
  guest.talk()
  await guest.hears()
  await offer({ vm: VM, migration: MIGRATION, from: first, to: second })
  let sizeBytes = 0
  for (const number of [1, 2]) {
    const round = await posted(second, first, 'rounds', { number })
    sizeBytes = Number(round['size_bytes'])
    assert.equal(await dataBytes(second, first, `rounds/${number}`, sizeBytes), round['changed_bytes'])
    await guest.hears()
  }
  const handed = await posted(second, first, 'handover', {})
  assert.deepEqual([handed['stage'], handed['last_round']], ['handed_over', 3])
  const { length_bytes: lengthBytes } = handed['memory'] as Json
  assert.ok((await dataBytes(second, first, 'memory', Number(lengthBytes))) > 0)
  await dataBytes(second, first, 'rounds/3', sizeBytes)
  const console = JSON.parse(await sent(second, first, `console?arrival=${MOVE.arrival}`)) as Json
  assert.match(String(console['session']), /^[0-9a-f]{16}$/)
  assert.deepEqual(await posted(second, first, 'abort', {}), { stage: 'withdrawn' })
  await seen(first, VM, ({ state }) => state === 'running')
  await guest.hears()
  await guest.client.checkDisk()
})
