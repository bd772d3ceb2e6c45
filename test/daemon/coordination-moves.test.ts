import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { request as httpsRequest } from 'node:https'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { before, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { deleteVm } from '../../src/commands/vm/delete-vm.ts'
import { withdrawOffer } from '../../src/commands/migration/offer-vm.ts'
import { limits } from '../../src/config/limits.ts'
import { HostFault } from '../../src/core/errors.ts'
import { HttpSourceHosts } from '../../src/host/source/http-source-hosts.ts'
import { StreamsFull } from '../../src/owners/migration/copy-places.ts'
import { ANYWHERE } from '../fakes/outbound.ts'
import { DISK_BYTES, leaveStage } from '../leave-stage.ts'
import { assertProblem, makePki } from './support/controller-host.ts'
import { clientWith, startCoordinationHost } from './support/coordination-host.ts'
import { eventually } from './support/eventually.ts'
import type { IncomingMessage } from 'node:http'
import type { TestContext } from 'node:test'
import type { TLSSocket } from 'node:tls'
import type { Departures } from '../../src/api/coordination/dependencies.ts'
import type { Frame } from '../../src/core/migration/frames.ts'
import type { CertificatePair } from '../../src/daemon/setup/certificates.ts'
import type { Result } from '../../src/lib/result.ts'
import type { MoveRef, SourceHost } from '../../src/ports/source-host.ts'
import type { Answer, Call, Pki } from './support/controller-host.ts'

let pki: Pki
let node: CertificatePair
let stranger: CertificatePair
before(async () => {
  pki = await makePki()
  node = await pki.issue({ commonName: 'node-2', usages: ['client'] })
  stranger = await pki.issue({ commonName: 'node-3', usages: ['client'] })
})

const never = new AbortController().signal
const PATH = '/v1/migrations/move-7'
const MINE = '?arrival=first'
const OTHER = '?arrival=second'

/** A VM that is offered to `node-2`, and the coordination API of its host. */
async function movingHost(t: TestContext, changed: (source: Departures) => Departures = (source) => source) {
  const stage = await leaveStage(t)
  const host = await startCoordinationHost(t, pki, changed(stage.source()))
  const call = (given: Call, as = node): Promise<Answer> =>
    host.call({ client: clientWith(pki, as), ...given })
  const post = (path: string, body: object, as = node): Promise<Answer> =>
    call({ method: 'POST', path: `${PATH}/${path}`, body }, as)
  /** The requests of a destination, with an attempt of its own if it is named. */
  const requests = (arrival = 'first', as = node): Promise<Answer>[] => [
    post('rounds', { arrival, number: 2 }, as),
    call({ path: `${PATH}/rounds/2?arrival=${arrival}` }, as),
    post('handover', { arrival }, as),
    call({ path: `${PATH}/memory?arrival=${arrival}` }, as),
    call({ path: `${PATH}/console?arrival=${arrival}` }, as),
    call({ path: `${PATH}/held-packets?arrival=${arrival}` }, as),
    post('release', { arrival, last_round: 2 }, as),
    post('abort', { arrival }, as),
  ]
  return {
    ...stage,
    api: host,
    port: host.port,
    logLines: host.logLines,
    call,
    post,
    requests,
    toHandover: async (): Promise<void> => {
      assert.equal((await post('rounds', { arrival: 'first', number: 1 })).status, 200)
      assert.equal((await post('handover', { arrival: 'first' })).json.stage, 'handed_over')
    },
  }
}

/** The host that takes the VM, with its own client of that API. */
function destinationOf(t: TestContext, { port, directory }: { port: number; directory: string }): SourceHost {
  const fileAt = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text)
    return join(directory, name)
  }
  const hosts = new HttpSourceHosts({
    files: {
      caFile: fileAt('node-ca', pki.authority.certificate),
      certificateFile: fileAt('node-crt', node.certificate),
      keyFile: fileAt('node-key', node.key),
    },
    policy: { ...ANYWHERE, allowedNetworks: ['127.0.0.0/8'] },
  })
  t.after(() => hosts.close())
  return hosts.at(`https://127.0.0.1:${port}`)
}

async function granted<T, E>(answer: Promise<Result<T, E>>): Promise<T> {
  const result = await answer
  assert.ok(result.ok, JSON.stringify(result))
  return result.value
}

async function apply(frames: AsyncIterable<Frame>, onto: Uint8Array): Promise<void> {
  for await (const frame of frames)
    if (frame.kind === 'data') onto.set(frame.bytes, frame.offset)
    else onto.fill(0, frame.offset, frame.offset + frame.length)
}

test('a destination takes a VM with its own client: disk, memory, images, console, packets and the release', async (t) => {
  const host = await movingHost(t)
  const source = destinationOf(t, host)
  const move: MoveRef = { migrationId: host.move.id, arrival: host.move.arrival }
  const manifest = await granted(source.manifest(move.migrationId, never))
  assert.deepEqual([manifest.stage, manifest.power, manifest.vmId], ['offered', 'running', host.id])
  const disk = new Uint8Array(DISK_BYTES)
  for (const number of [1, 2]) {
    const { sizeBytes } = await granted(source.ensureRound(move, number, never))
    await apply(await granted(source.roundFrames(move, { number, sizeBytes }, never)), disk)
    host.write(number + 3, number)
  }
  const { stage, lastRound = 0, memory } = await granted(source.handOver(move, never))
  assert.deepEqual([stage, lastRound], ['handed_over', 3])
  await apply(await granted(source.roundFrames(move, { number: 3, sizeBytes: DISK_BYTES }, never)), disk)
  assert.deepEqual(disk, host.content)
  const saved = new Uint8Array(memory?.lengthBytes ?? 0)
  await apply(await granted(source.memoryFrames(move, saved.length, never)), saved)
  assert.ok(saved.some((byte) => byte !== 0))
  const kernel: Uint8Array[] = []
  const { kernelSha256 } = manifest.vm.desired.image
  for await (const chunk of await granted(source.image(move.migrationId, kernelSha256, never)))
    kernel.push(chunk)
  assert.equal(Buffer.concat(kernel).toString(), 'kernel')
  const session = await granted(source.console(move, never))
  assert.equal(session?.session, host.host.consoles.lastSession(host.id)?.id)
  host.receive('late')
  await granted(source.release(move, lastRound, never))
  const packets = await granted(source.heldPackets(move, { after: 0, waitMs: 0 }, never))
  assert.deepEqual(
    packets.map(({ number, counts }) => ({ number, counts })),
    [{ number: 1, counts: true }],
  )
  assert.ok(deleteVm(host.context, host.id).ok)
  await eventually(() => host.store.vms.get(host.id) === undefined)
  await granted(source.release(move, lastRound, never))
  assert.deepEqual(await source.abort(move, never), { ok: false, error: 'released' })
})

test('for another node there is no such migration, on every route and in every stage', async (t) => {
  const { requests, call, toHandover, vm } = await movingHost(t)
  const { kernelSha256 } = vm().desired.image
  const probe = { headers: { 'x-request-id': 'probe' } }
  const unknown = await call({ path: '/v1/migrations/move-0', ...probe })
  for (const stage of ['offered', 'handed_over']) {
    if (stage === 'handed_over') await toHandover()
    const answers = [
      ...requests('first', stranger),
      call({ path: `${PATH}/images/${kernelSha256}` }, stranger),
      call({ path: PATH }, stranger),
    ]
    for (const answer of await Promise.all(answers)) assertProblem(answer, 404, 'not_found')
    const seen = await call({ path: PATH, ...probe }, stranger)
    assert.equal(seen.text, unknown.text.replace('move-0', 'move-7'))
    assert.equal(vm().departure?.stage, stage)
  }
})

test('each request is refused with the code of its reason', async (t) => {
  const { post, call, requests, toHandover, context, id, stageNow } = await movingHost(t)
  const codes = async (answers: readonly Promise<Answer>[]): Promise<unknown[]> =>
    (await Promise.all(answers)).map(({ json }) => json.code)
  assertProblem(await post('handover', { arrival: 'first' }), 409, 'migration_not_yours')
  assert.equal((await post('rounds', { arrival: 'first', number: 1 })).status, 200)
  for (const path of ['memory', 'console', 'held-packets'])
    assertProblem(await call({ path: `${PATH}/${path}${MINE}` }), 409, 'migration_too_early')
  assertProblem(await post('release', { arrival: 'first', last_round: 1 }), 409, 'migration_too_early')
  await toHandover()
  assert.deepEqual(
    await codes(requests('second')),
    requests('second').map(() => 'migration_not_yours'),
  )
  assertProblem(await call({ path: `${PATH}/rounds/1${OTHER}` }), 409, 'migration_not_yours')
  assertProblem(await post('rounds', { arrival: 'first', number: 1 }), 409, 'migration_outdated')
  assertProblem(await post('release', { arrival: 'first', last_round: 1 }), 409, 'migration_outdated')
  assert.equal(stageNow(), 'handed_over')
  assert.ok(withdrawOffer(context, id).ok)
  const late = requests()
  const aborted = late.pop()
  assert.deepEqual(
    await codes(late),
    late.map(() => 'migration_withdrawn'),
  )
  assert.deepEqual((await aborted)?.json, { stage: 'withdrawn' })
  // The record goes on at this host: the node has no right to what the user gives it from now on.
  assertProblem(await call({ path: PATH }), 409, 'migration_withdrawn')
})

test('after the release nothing is copied or given up, and the release is repeated', async (t) => {
  const { post, call, toHandover, vm } = await movingHost(t)
  const { kernelSha256 } = vm().desired.image
  await toHandover()
  for (let time = 0; time < 2; time += 1)
    assert.deepEqual((await post('release', { arrival: 'first', last_round: 2 })).json, { stage: 'released' })
  const refused = [
    post('rounds', { arrival: 'first', number: 2 }),
    post('abort', { arrival: 'first' }),
    call({ path: `${PATH}/rounds/2${MINE}` }),
    call({ path: `${PATH}/memory${MINE}` }),
    call({ path: `${PATH}/images/${kernelSha256}` }),
    call({ path: PATH }),
  ]
  for (const answer of await Promise.all(refused)) assertProblem(answer, 409, 'migration_released')
  assert.deepEqual((await post('handover', { arrival: 'first' })).json, { stage: 'released', last_round: 2 })
})

test('a malformed request is refused, and so is any before the store is open', async (t) => {
  const host = await movingHost(t)
  const { post, call, requests } = host
  const malformed = [
    post('rounds', { arrival: '../x', number: 1 }),
    post('rounds', { arrival: 'first', number: 0 }),
    post('rounds', { number: 1 }),
    post('handover', { arrival: 'first', force: true }),
    post('release', { arrival: 'first' }),
    call({ path: `${PATH}/rounds/1` }),
    call({ path: `${PATH}/rounds/01${MINE}` }),
    call({ path: `${PATH}/rounds/1${MINE}&from=-1` }),
    call({ path: `${PATH}/memory?arrival=${'a'.repeat(65)}` }),
    call({ path: `${PATH}/images/abc` }),
    call({ path: `${PATH}/held-packets${MINE}&wait_ms=${limits.handoverPollMs + 1}` }),
  ]
  for (const answer of await Promise.all(malformed)) assertProblem(answer, 400, 'invalid_request')
  const images = await call({ path: `${PATH}/images/${'0'.repeat(64)}` })
  assertProblem(images, 404, 'not_found')
  assert.equal(host.stageNow(), 'offered')
  host.api.storeIsOpen = false
  for (const answer of await Promise.all(requests())) assertProblem(answer, 503, 'starting_up')
})

test('two attempts: the second begins from the first round, and the first hears so', async (t) => {
  const { post, call, vm } = await movingHost(t)
  for (const number of [1, 2]) await post('rounds', { arrival: 'first', number })
  const second = await post('rounds', { arrival: 'second', number: 1 })
  assert.deepEqual(second.json, { number: 1, size_bytes: DISK_BYTES, changed_bytes: 4096 })
  assertProblem(await call({ path: `${PATH}/rounds/2${MINE}` }), 409, 'migration_not_yours')
  assert.deepEqual([vm().departure?.arrival, vm().departure?.round], ['second', 1])
})

/** Opens a stream, without reading it. */
async function opened(port: number, path: string): Promise<IncomingMessage> {
  const sent = httpsRequest({ host: '127.0.0.1', port, path, ...clientWith(pki, node) }).end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return response
}

test('a stream that was cut continues at the end of a frame, and ends in the same way', async (t) => {
  const { post, port, write } = await movingHost(t)
  for (const block of [3, 9]) write(block, block)
  await post('rounds', { arrival: 'first', number: 1 })
  const read = async (from: number): Promise<Buffer> => {
    const chunks: Buffer[] = []
    const response = await opened(port, `${PATH}/rounds/1${MINE}&from=${from}`)
    assert.equal(response.headers['content-type'], 'application/octet-stream')
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk)
    return Buffer.concat(chunks)
  }
  const [whole, rest] = [await read(0), await read(4 * 4096)]
  assert.ok(rest.length > 4096 && rest.length < whole.length)
  assert.deepEqual(rest, whole.subarray(whole.length - rest.length))
})

/** Serves these chunks in place of a round. */
const streaming =
  (chunks: (signal: AbortSignal) => AsyncIterable<Uint8Array>) =>
  (source: Departures): Departures => ({
    ensureRound: source.ensureRound.bind(source),
    handOver: source.handOver.bind(source),
    manifest: source.manifest.bind(source),
    release: source.release.bind(source),
    abort: source.abort.bind(source),
    reads: Object.assign(Object.create(source.reads), {
      roundFrames: async (_move: unknown, _round: unknown, signal: AbortSignal) => ({
        ok: true,
        value: chunks(signal),
      }),
    }),
  })

test('a fault in the midst of a stream cuts it, and one before it is a problem', async (t) => {
  let isEarly = true
  const chunks = async function* (): AsyncGenerator<Uint8Array, void> {
    if (!isEarly) yield Buffer.alloc(100_000)
    throw new HostFault('round_lost', 'reading')
  }
  const { call, port, logLines } = await movingHost(t, streaming(chunks))
  assertProblem(await call({ path: `${PATH}/rounds/1${MINE}` }), 503, 'round_lost')
  isEarly = false
  const response = await opened(port, `${PATH}/rounds/1${MINE}`)
  assert.equal(response.statusCode, 200)
  response.resume()
  const [error] = (await once(response, 'error')) as [NodeJS.ErrnoException]
  assert.equal(error.code, 'ECONNRESET')
  assert.equal(response.complete, false)
  await eventually(() => logLines.some((line) => line.includes('"stream cut"')))
})

test('a destination with as many streams as it may have hears how many, and to ask again', async (t) => {
  const next = (): Promise<never> => Promise.reject(new StreamsFull('on purpose'))
  const chunks = (): AsyncIterable<Uint8Array> => ({ [Symbol.asyncIterator]: () => ({ next }) })
  const { call } = await movingHost(t, streaming(chunks))
  const answer = await call({ path: `${PATH}/rounds/1${MINE}` })
  assertProblem(answer, 503, 'migrations_busy')
  assert.match(
    String(answer.json.detail),
    new RegExp(`reads ${limits.streamsPerOfferMax} streams of migration`),
  )
})

test('a stream whose chunks share their memory is sent as it was, however slowly it is read', async (t) => {
  const room = Buffer.alloc(limits.roundFrameBytesMax)
  const chunks = async function* (): AsyncGenerator<Uint8Array, void> {
    for (let number = 1; number <= 30; number += 1) yield room.fill(number)
  }
  const { port } = await movingHost(t, streaming(chunks))
  const response = await opened(port, `${PATH}/rounds/1${MINE}`)
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    for (let at = 0; at < chunk.length; at += 4096)
      assert.equal(chunk[at], 1 + Math.floor((bytes + at) / room.length))
    bytes += chunk.length
  }
  assert.equal(bytes, 30 * room.length)
})

test('a stream ends when its client goes away, and nothing is answered or logged as a fault', async (t) => {
  const ended = Promise.withResolvers<void>()
  const chunks = async function* (signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
    try {
      yield Buffer.alloc(10)
      await once(signal, 'abort')
      signal.throwIfAborted()
    } finally {
      ended.resolve()
    }
  }
  const { port, logLines } = await movingHost(t, streaming(chunks))
  const response = await opened(port, `${PATH}/rounds/1${MINE}`)
  response.on('error', () => {})
  response.destroy()
  await ended.promise
  assert.ok(!logLines.some((line) => line.includes('stream cut') || line.includes('internal')))
})

/** Returns a POST that is not sent yet. */
function posting(port: number, route: string, body: string) {
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const path = `${PATH}/${route}`
  return httpsRequest({
    ...{ host: '127.0.0.1', port, path, method: 'POST', headers },
    ...clientWith(pki, node),
  })
}

test('the answer to a round that takes long to compare begins meanwhile', async (t) => {
  const { port, host } = await movingHost(t)
  const release = host.rounds.holdNext('ensureRound')
  const body = JSON.stringify({ arrival: 'first', number: 1 })
  const sent = posting(port, 'rounds', body)
  sent.flushHeaders()
  const [socket] = (await once(sent, 'socket')) as [TLSSocket]
  await once(socket, 'secureConnect')
  const begun = once(sent, 'response') as Promise<[IncomingMessage]>
  t.mock.timers.enable({ apis: ['setTimeout'] })
  sent.end(body)
  do t.mock.timers.tick(limits.answerQuietMs)
  while (!(await Promise.race([begun.then(() => true), setImmediate(false)])))
  const [response] = await begun
  assert.equal(response.statusCode, 200)
  release()
  const answer = await textOf(response)
  assert.match(answer, /^ /)
  assert.deepEqual(Object.keys(JSON.parse(answer)), ['number', 'size_bytes', 'changed_bytes'])
})

test('a handover whose client goes away goes on, and its request is not logged as a fault', async (t) => {
  const { port, post, host, stageNow, logLines } = await movingHost(t)
  await post('rounds', { arrival: 'first', number: 1 })
  const release = host.monitor.holdNext('save')
  const body = JSON.stringify({ arrival: 'first' })
  const sent = posting(port, 'handover', body)
  sent.on('error', () => {}).end(body)
  await eventually(() => stageNow() === 'handing_over')
  sent.destroy()
  await eventually(() => logLines.some((line) => line.includes('"status":499')))
  release()
  await eventually(() => stageNow() === 'handed_over')
  const lines = logLines.map((line) => JSON.parse(line))
  const about = lines.filter(({ action, route }) => action === 'handOver' || route?.endsWith('handover'))
  const ends = about.map(({ status, outcome }) => status ?? outcome)
  assert.deepEqual(ends, [499, 'unanswered'])
})
