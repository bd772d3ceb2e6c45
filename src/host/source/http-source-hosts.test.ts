import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { manifest } from '../../../test/daemon/support/coordination-host.ts'
import { breakStore } from '../../../test/broken-store.ts'
import { ANYWHERE } from '../../../test/fakes/outbound.ts'
import { manifestToWire } from '../../api/wire/manifest.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { createAuthority, issueCertificate } from '../../daemon/setup/certificates.ts'
import { errorChain } from '../../log/error-chain.ts'
import { HttpSourceHosts } from './http-source-hosts.ts'
import type { AddressInfo, Server } from 'node:net'
import type { TlsOptions } from 'node:tls'
import type { TestContext } from 'node:test'
import type { BrokenRequest, BrokenStore } from '../../../test/broken-store.ts'
import type { CertificatePair, LeafRequest } from '../../daemon/setup/certificates.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { MoveRef, SourceHost } from '../../ports/source-host.ts'
import type { OutboundPolicy } from '../../core/outbound/outbound-policy.ts'

const never = new AbortController().signal
const HERE: OutboundPolicy = { ...ANYWHERE, allowedNetworks: ['127.0.0.0/8'] }
const move: MoveRef = { migrationId: manifest.migrationId, arrival: 'a-1' as ArrivalId }
const MANIFEST = JSON.stringify(manifestToWire(manifest))

let authority: CertificatePair
let stranger: CertificatePair
before(async () => {
  authority = await createAuthority('nodes', Date.now())
  stranger = await createAuthority('others', Date.now())
})

const issue = (leaf: Partial<LeafRequest>, by = authority, atMs = Date.now()): Promise<CertificatePair> =>
  issueCertificate(
    by,
    { commonName: 'host', alternativeNames: ['127.0.0.1'], usages: ['server', 'client'], ...leaf },
    atMs,
  )

type Behave = (request: BrokenRequest) => Promise<void> | void

/** Serves what `behave` wants to clients of the authority of nodes. */
async function serve(
  t: TestContext,
  behave: Behave,
  { pair, ...tls }: { readonly pair?: CertificatePair } & TlsOptions = {},
): Promise<BrokenStore> {
  const { certificate: cert, key } = pair ?? (await issue({ commonName: 'source' }))
  return breakStore(t, behave, { cert, key, ca: authority.certificate, requestCert: true, ...tls })
}

const answering =
  (body: string, status = 200): Behave =>
  ({ answer }) =>
    answer(status, {}, body)

/** The files of this host, and its way to other hosts. */
async function destination(t: TestContext, policy = HERE) {
  const directory = mkdtempSync(join(tmpdir(), 'node-'))
  const fileAt = (name: string): string => join(directory, name)
  const files = { caFile: fileAt('ca'), certificateFile: fileAt('crt'), keyFile: fileAt('key') }
  const write = (pair: Partial<CertificatePair>): void => {
    if (pair.certificate !== undefined) writeFileSync(files.certificateFile, pair.certificate)
    if (pair.key !== undefined) writeFileSync(files.keyFile, pair.key)
  }
  writeFileSync(files.caFile, authority.certificate)
  write(await issue({ commonName: 'destination' }))
  const hosts = new HttpSourceHosts({ files, policy })
  t.after(() => {
    hosts.close()
    rmSync(directory, { recursive: true })
  })
  return { hosts, write, files }
}

/** Lets a server listen on loopback. */
async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** Asks for the manifest; returns the code of the fault, and its whole chain. */
async function faultOf(source: SourceHost): Promise<readonly [code: FaultCode, text: string]> {
  const error = await source.manifest(manifest.migrationId, never).then(
    () => assert.fail('it answered'),
    (thrown: unknown) => thrown,
  )
  assert.ok(error instanceof HostFault, String(error))
  return [error.code, errorChain(error)]
}

test('a manifest is read over one kept connection, and again over a new one when that was closed', async (t) => {
  const { hosts } = await destination(t)
  const server = await serve(t, ({ index, socket, answer }) =>
    index === 2 ? void socket.destroy() : answer(200, {}, MANIFEST),
  )
  const source = hosts.at(server.origin)
  for (let count = 1; count <= 3; count += 1) {
    const answer = await source.manifest(manifest.migrationId, never)
    assert.deepEqual(answer, { ok: true, value: manifest })
    assert.equal(server.connections(), count < 3 ? 1 : 2)
  }
  assert.match(server.heads[0] ?? '', /^GET \/v1\/migrations\/move-web-1 HTTP\/1\.1\r\n/)
})

test('a POST uses a kept connection too, because it is safe to repeat', async (t) => {
  const { hosts } = await destination(t)
  const round = JSON.stringify({ number: 1, size_bytes: 4096, changed_bytes: 0 })
  const server = await serve(t, async ({ index, socket, answer, takeUnaskedBody }) => {
    await takeUnaskedBody()
    if (index === 2) socket.destroy()
    else answer(200, {}, round)
  })
  const source = hosts.at(server.origin)
  for (let count = 1; count <= 3; count += 1) {
    const answer = await source.ensureRound(move, 1, never)
    assert.deepEqual(answer, { ok: true, value: { sizeBytes: 4096, changedBytes: 0 } })
    assert.equal(server.connections(), count < 3 ? 1 : 2)
  }
  assert.match(server.heads[0] ?? '', /^POST .*content-type: application\/json\r\n/is)
})

test('an answer may begin with white space: its source needs time', async (t) => {
  const { hosts } = await destination(t)
  const server = await serve(t, answering('  {"number":1,"size_bytes":4096,"changed_bytes":8}'))
  const answer = await hosts.at(server.origin).ensureRound(move, 1, never)
  assert.deepEqual(answer, { ok: true, value: { sizeBytes: 4096, changedBytes: 8 } })
})

test('a problem of the API is a refusal, by its code', async (t) => {
  const { hosts } = await destination(t)
  for (const [status, code, refusal] of [
    [404, 'not_found', 'unknown'],
    [409, 'migration_withdrawn', 'withdrawn'],
    [409, 'migration_released', 'released'],
    [409, 'migration_not_yours', 'not_yours'],
    [409, 'migration_too_early', 'too_early'],
    [409, 'migration_outdated', 'outdated'],
    [503, 'migrations_busy', 'busy'],
    [503, 'starting_up', 'busy'],
  ] as const) {
    const server = await serve(t, answering(JSON.stringify({ code, status, detail: 'x' }), status))
    const source = hosts.at(server.origin)
    const refused = { ok: false, error: refusal }
    assert.deepEqual(await source.manifest(manifest.migrationId, never), refused)
    assert.deepEqual(await source.memoryFrames(move, 4096, never), refused)
    const history = await source.console(move, never)
    assert.deepEqual(history, refusal === 'unknown' ? { ok: true, value: undefined } : refused)
  }
})

test('an answer that is not of the API is refused; one that says that the host cannot look now is not', async (t) => {
  const { hosts } = await destination(t)
  const problem = JSON.stringify({ code: 'monitor_missing', detail: 'no monitor here', status: 503 })
  const overdue = JSON.stringify({ code: 'wait_overdue', detail: 'the disk is slow', status: 503 })
  for (const [behave, code, words] of [
    [answering('{"migration_id":"move-web-1"}'), 'source_refused', /not one that this version knows/],
    [answering('<html>'), 'source_refused', /not one that this version knows/],
    [answering('<html>', 404), 'source_refused', /status 404$/],
    [
      answering('{"code":"forbidden","detail":"not a node"}', 403),
      'source_refused',
      /status 403: not a node$/,
    ],
    [({ answer }) => answer(307, { location: 'https://198.51.100.7/' }), 'source_refused', /status 307$/],
    [answering(' '.repeat(limits.sourceAnswerBytesMax + 1)), 'source_refused', /has more than \d+ bytes$/],
    [answering(problem, 503), 'monitor_missing', /status 503: no monitor here$/],
    [answering(overdue, 503), 'source_unreachable', /status 503: the disk is slow$/],
    [answering(problem, 404), 'source_refused', /status 404: no monitor here$/],
    [({ socket }) => void socket.destroy(), 'source_unreachable', /closed the connection; if it always does/],
    [({ socket }) => void socket.end('SSH-2.0\r\n\r\n'), 'source_unreachable', /does not speak HTTP/],
  ] as const satisfies readonly (readonly [Behave, FaultCode, RegExp])[]) {
    const server = await serve(t, behave)
    const [given, text] = await faultOf(hosts.at(server.origin))
    assert.match(text, words)
    assert.match(text, /^asking the source https:\/\/127\.0\.0\.1:\d+: /)
    assert.equal(given, code, text)
  }
})

test('a refusal of a stream that is too long ends its connection', async (t) => {
  const { hosts } = await destination(t)
  const closed = Promise.withResolvers<void>()
  const server = await serve(t, ({ socket, answer }) => {
    socket.once('close', () => closed.resolve())
    answer(404, {}, ' '.repeat(limits.sourceAnswerBytesMax + 1))
  })
  const refused = hosts.at(server.origin).memoryFrames(move, 4096, never)
  await assert.rejects(refused, (error) => error instanceof HostFault && error.code === 'source_refused')
  await closed.promise
})

test('a stream that is given up before it is read ends its connection', async (t) => {
  const { hosts } = await destination(t)
  const closed = Promise.withResolvers<void>()
  const server = await serve(t, ({ socket, answer }) => {
    socket.once('close', () => closed.resolve())
    answer(200, {}, 'x'.repeat(4_000_000))
  })
  const image = await hosts.at(server.origin).image(manifest.migrationId, 'a'.repeat(64) as Sha256, never)
  assert.ok(image.ok)
  await image.value[Symbol.asyncIterator]().return?.()
  await closed.promise
})

test('a source is refused if its certificate has another name or authority, or has expired', async (t) => {
  const { hosts } = await destination(t)
  const longAgo = Date.now() - 2000 * 86_400_000
  for (const [pair, words] of [
    [await issue({ alternativeNames: ['127.0.0.2'] }), /is for another name; check the URL/],
    [await issue({}, stranger), /coordination\.ca_file of each host must name the authority of the other/],
    [await issue({}, authority, longAgo), /has expired, or the clock of this host is ahead/],
  ] as const) {
    const server = await serve(t, answering(MANIFEST), { pair })
    const [code, text] = await faultOf(hosts.at(server.origin))
    assert.match(text, words)
    assert.equal(code, 'source_refused')
    assert.equal(server.heads.length, 0, 'a request went out')
  }
})

test('a source that is not there, does not speak TLS, or does not take the certificate, is unreachable', async (t) => {
  const { hosts, write } = await destination(t)
  const gone = createServer()
  const port = await portOf(gone)
  await new Promise((resolve) => gone.close(resolve))
  assert.match(
    (await faultOf(hosts.at(`https://127.0.0.1:${port}`))).join(),
    /^source_unreachable,.*nothing listens/,
  )
  const plain = createServer((socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  t.after(() => plain.close())
  const [code, text] = await faultOf(hosts.at(`https://127.0.0.1:${await portOf(plain)}`))
  assert.match(text, /does not speak TLS as it should/)
  assert.equal(code, 'source_unreachable')
  const old = await serve(t, answering(MANIFEST), { maxVersion: 'TLSv1.2' })
  assert.match((await faultOf(hosts.at(old.origin))).join(), /^source_unreachable,.*TLS as it should/)
  write(await issue({}, stranger))
  const server = await serve(t, answering(MANIFEST))
  const [, because] = await faultOf(hosts.at(server.origin))
  assert.match(because, /does not accept the certificate of this host/)
})

test('a renewed certificate is used at once, and the old one until the new files fit together', async (t) => {
  const { hosts, write, files } = await destination(t)
  const server = await serve(t, answering(MANIFEST))
  const source = hosts.at(server.origin)
  const read = async (): Promise<number> => {
    assert.ok((await source.manifest(manifest.migrationId, never)).ok)
    return server.connections()
  }
  assert.equal(await read(), 1)
  const renewed = await issue({ commonName: 'destination' })
  write({ certificate: renewed.certificate })
  assert.equal(await read(), 1)
  write(renewed)
  assert.equal(await read(), 2)
  assert.equal(await read(), 2)
  rmSync(files.keyFile)
  assert.equal(await read(), 2)
})

test('without a usable certificate nothing connects, and the fault names the files', async (t) => {
  const { hosts, files } = await destination(t)
  const server = await serve(t, answering(MANIFEST))
  writeFileSync(files.keyFile, 'no key')
  const [code, text] = await faultOf(hosts.at(server.origin))
  assert.equal(code, 'source_refused')
  assert.ok(text.includes(files.keyFile) && text.includes('cannot be used together'), text)
  assert.equal(server.connections(), 0)
})

test('an origin with more than host and port, or of a guest or this host, is refused before anything connects', async (t) => {
  const server = await serve(t, answering(MANIFEST))
  const { hosts } = await destination(t)
  const { host } = new URL(server.origin)
  for (const origin of [
    `${server.origin}/v1`,
    `${server.origin}?a=1`,
    `${server.origin}#a`,
    `https://user@${host}`,
    `https://user:word@${host}`,
    `http://${host}`,
    host,
    '',
  ]) {
    const [code, text] = await faultOf(hosts.at(origin))
    assert.match(text, /its URL is not like https:\/\/10\.0\.0\.1:9001/, origin)
    assert.equal(code, 'source_refused')
  }
  const strict = await destination(t, { ...ANYWHERE, guestRanges: ['198.51.100.0/24'] })
  assert.match((await faultOf(strict.hosts.at('https://198.51.100.7:9001'))).join(), /the address of a guest/)
  assert.match((await faultOf(strict.hosts.at(server.origin))).join(), /source_refused,.*a loopback address/)
  assert.equal(server.connections(), 0)
})

test('a source that sends nothing is given up after a while, with its connection; an abort has its own reason', async (t) => {
  const { hosts } = await destination(t)
  const asked = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  const server = await serve(t, ({ socket }) => {
    socket.once('close', () => closed.resolve()).resume()
    asked.resolve()
  })
  const reason = new Error('no longer wanted')
  const controller = new AbortController()
  const aborted = hosts.at(server.origin).manifest(manifest.migrationId, controller.signal)
  await asked.promise
  controller.abort(reason)
  await assert.rejects(aborted, reason)
  await closed.promise
  const [again, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const silent = await serve(t, ({ socket }) => {
    socket.once('close', () => over.resolve()).resume()
    again.resolve()
  })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const late = faultOf(hosts.at(silent.origin))
  await again.promise
  t.mock.timers.tick(limits.sourceSilenceMs)
  assert.match((await late).join(), /^source_unreachable,.*it sent nothing for 30 s$/)
  await over.promise
})

test('a handshake that does not come to its end is given up', async (t) => {
  const { hosts } = await destination(t)
  const accepted = Promise.withResolvers<void>()
  const mute = createServer((socket) => {
    t.after(() => socket.destroy())
    accepted.resolve()
  })
  t.after(() => mute.close())
  const port = await portOf(mute)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const late = faultOf(hosts.at(`https://127.0.0.1:${port}`))
  await accepted.promise
  t.mock.timers.tick(limits.sourceConnectMs)
  assert.match((await late).join(), /^source_unreachable,.*no connection was made in 5 s$/)
})
