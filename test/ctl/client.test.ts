import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import { before, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { answered, answeredUnlessEmpty, createApiClient, done } from '../../src/client/api-client.ts'
import { ApiProblem, UnexpectedAnswer } from '../../src/client/api-problem.ts'
import { ConnectionFailed } from '../../src/client/connection-failed.ts'
import { readEvents } from '../../src/client/events.ts'
import { ImpossibleId } from '../../src/client/path-part.ts'
import { watchVm } from '../../src/client/watch.ts'
import { never } from '../../src/lib/abortable.ts'
import { createBody, makePki, startControllerHost } from '../daemon/support/controller-host.ts'
import type { RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { TestContext } from 'node:test'
import type { ApiClient, CreateVm } from '../../src/client/api-client.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** The client, against a server that is not the daemon's. */
async function clientOf(t: TestContext, listener: RequestListener): Promise<ApiClient> {
  const { authority, server, controller } = pki
  const https = createServer({ cert: server.certificate, key: server.key }, listener).listen(0, '127.0.0.1')
  await once(https, 'listening')
  const client = createApiClient({
    url: `https://127.0.0.1:${(https.address() as AddressInfo).port}`,
    ca: authority.certificate,
    cert: controller.certificate,
    key: controller.key,
  })
  t.after(() => {
    client.close()
    https.close()
  })
  return client
}

const list = (client: ApiClient) => answered(client.GET('/v1/vms'))

const answer: RequestListener = (_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"items": []}')
}

test('a URL that is not an address of a daemon is refused before anything is sent', async () => {
  const { authority, controller } = pki
  const at = (url: string) => ({
    url,
    ca: authority.certificate,
    cert: controller.certificate,
    key: controller.key,
  })
  for (const url of [
    '',
    'host-1:9000',
    'http://host-1:9000',
    'https://host-1:9000?',
    'https://host-1:9000/#a',
  ]) {
    const refused = {
      name: 'TypeError',
      message: `"${url}" is not an address of a daemon, as https://host-1:9000 is`,
    }
    assert.throws(() => createApiClient(at(url)), refused)
    const reading = readEvents(at(url), { follow: false, signal: never })
    await assert.rejects(reading.next(), refused)
  }
})

test('a watch needs only a signal', async (t) => {
  let asked = 0
  const client = await clientOf(t, (_request, response) => {
    asked += 1
    const headers = { 'content-type': 'application/json', etag: `"${asked}"` }
    if (asked === 2) response.writeHead(304).end()
    else response.writeHead(200, headers).end(JSON.stringify({ id: `web-${asked}` }))
  })
  const seen: string[] = []
  for await (const sight of watchVm(client, 'web-1', { signal: never })) {
    if (sight.kind === 'there') seen.push(sight.seen.id)
    if (seen.length === 2) break
  }
  assert.deepEqual(seen, ['web-1', 'web-3'])
})

test('sequential requests share a connection', async (t) => {
  const sockets = new Set<Socket>()
  const client = await clientOf(t, (request, response) => {
    sockets.add(request.socket)
    answer(request, response)
  })
  for (let count = 0; count < 3; count += 1) assert.deepEqual((await list(client)).data.items, [])
  assert.equal(sockets.size, 1)
})

test('many requests on one connection leave no listeners on it', async (t) => {
  const client = await clientOf(t, answer)
  const warnings: string[] = []
  const note = ({ name }: Error) => void warnings.push(name)
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  for (let count = 0; count < 12; count += 1) await list(client)
  // Node reports a warning in a later tick.
  await setImmediate()
  assert.deepEqual(warnings, [])
})

test('a request on kept connections that the daemon has just closed uses a new one, without an error', async (t) => {
  const seen = new WeakSet<Socket>()
  let cut = 0
  const client = await clientOf(t, (request, response) => {
    if (seen.has(request.socket)) {
      cut += 1
      request.socket.destroy()
      return
    }
    seen.add(request.socket)
    answer(request, response)
  })
  await Promise.all([list(client), list(client)])
  assert.deepEqual((await list(client)).data.items, [])
  assert.equal(cut, 2)
})

test('a request that has another outcome when it is repeated is sent once, and on a connection of its own', async (t) => {
  let asked = 0
  const client = await clientOf(t, (request, response) => {
    if (request.method === 'GET') return answer(request, response)
    asked += 1
    request.socket.destroy()
  })
  const params = { path: { id: 'web-1' } }
  const rootfs = { url: 'https://i.example/root', sha256: 'a'.repeat(64) }
  const headers = { 'if-match': '"7"' }
  const calls = [
    () => done(client.POST('/v1/vms/{id}/reboot', { params, body: {} })),
    () => done(client.POST('/v1/vms/{id}/rebuild', { params, body: { rootfs } })),
    () => done(client.PUT('/v1/vms/{id}/metadata', { params, headers, body: {} })),
    () => done(client.DELETE('/v1/vms/{id}', { params, headers })),
  ]
  for (const [index, call] of calls.entries()) {
    await list(client)
    await assert.rejects(call(), ConnectionFailed)
    assert.equal(asked, index + 1)
  }
})

test('a new connection that ends without an answer is a failure, and is not retried automatically', async (t) => {
  let asked = 0
  const client = await clientOf(t, (request) => {
    asked += 1
    request.socket.destroy()
  })
  await assert.rejects(list(client), ConnectionFailed)
  assert.equal(asked, 1)
})

test('an answer that breaks off is a failure', async (t) => {
  const client = await clientOf(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 })
    response.write('{"items"', () => response.destroy())
  })
  await assert.rejects(list(client), (error) => error instanceof ConnectionFailed && error.kind === 'broken')
})

test('an answer that does not come from vmhostd is reported as such, whatever its status', async (t) => {
  for (const status of [200, 205, 301, 404, 500, 999]) {
    const client = await clientOf(t, (_request, response) => {
      response.writeHead(status, { 'content-type': 'text/html' }).end('<html></html>')
    })
    await assert.rejects(list(client), UnexpectedAnswer, String(status))
    await assert.rejects(done(client.GET('/v1/vms')), UnexpectedAnswer, String(status))
    await assert.rejects(answeredUnlessEmpty(client.GET('/v1/vms')), UnexpectedAnswer, String(status))
  }
})

test('a success without content says which function takes it', async (t) => {
  const { api } = await startControllerHost(t, pki)
  const remove = () => api.DELETE('/v1/vms/{id}', { params: { path: { id: 'web-9' } } })
  await assert.rejects(answered(remove()), {
    name: 'UnexpectedAnswer',
    status: 204,
    message: /answeredUnlessEmpty/,
  })
  assert.deepEqual(await answeredUnlessEmpty(remove()), { status: 204, etag: '' })
})

/** A client whose server answers 200 with this content. */
const contentClient = (t: TestContext, type: string, body: string): Promise<ApiClient> =>
  clientOf(t, (_request, response) =>
    response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body),
  )

const params = { path: { id: 'web-1' } }

test('an answer of text is a text, whatever is in it', async (t) => {
  for (const text of ['guest booted\nlogin: ', '42\n', '"quoted"', '']) {
    const client = await contentClient(t, 'text/plain; charset=utf-8', text)
    assert.equal((await answered(client.GET('/v1/vms/{id}/console/log', { params }))).data, text)
    assert.equal((await answered(client.GET('/metrics'))).data, text)
    const { data = '' } = await client.GET('/v1/vms/{id}/console/log', { params, parseAs: 'text' })
    assert.equal(data, text)
  }
})

test('an answer that is not of the kind of its route does not come from vmhostd', async (t) => {
  await assert.rejects(list(await contentClient(t, 'text/plain', 'hello')), UnexpectedAnswer)
  for (const type of ['application/json', 'text/html', 'text/plainer']) {
    const client = await contentClient(t, type, '42')
    await assert.rejects(answered(client.GET('/v1/vms/{id}/console/log', { params })), UnexpectedAnswer, type)
  }
})

test('an id that a URL takes for a step is refused before it is sent, and reaches no other route', async (t) => {
  const { api, store } = await startControllerHost(t, pki)
  await answered(
    api.PUT('/v1/vms/{id}', { params: { path: { id: 'migration' } }, body: createBody() as CreateVm }),
  )
  const path = { id: '.' }
  await assert.rejects(api.DELETE('/v1/vms/{id}/migration', { params: { path } }), ImpossibleId)
  await assert.rejects(api.GET('/v1/vms/{id}/console/log', { params: { path: { id: '..' } } }), ImpossibleId)
  const watching = watchVm(api, '..', { signal: never })
  await assert.rejects(watching.next(), ImpossibleId)
  assert.equal(store.vms.get('migration' as VmId)?.deleting, false)
  // These stay one part of the path: the daemon refuses them.
  for (const id of ['', '...', '%2e', '../migration']) {
    const { error } = await api.DELETE('/v1/vms/{id}', { params: { path: { id } } })
    assert.equal(error?.code, 'invalid_request')
  }
})

test('an abandoned request fails with the reason', async (t) => {
  const client = await clientOf(t, () => {})
  const over = new AbortController()
  const asked = client.GET('/v1/vms', { signal: over.signal })
  const reason = new Error('enough')
  over.abort(reason)
  await assert.rejects(asked, reason)
})

test('a problem from the daemon becomes one error with its parts', async (t) => {
  const host = await startControllerHost(t, pki)
  const asked = answered(host.api.GET('/v1/vms/{id}', { params: { path: { id: 'web-9' } } }))
  await assert.rejects(asked, (error) => {
    assert.ok(error instanceof ApiProblem)
    assert.equal(error.code, 'not_found')
    assert.equal(error.status, 404)
    assert.equal(error.detail, 'there is no VM web-9 on this host')
    assert.match(error.requestId, /^req-/)
    return true
  })
})

test('a refusal says after how many seconds to try again, if the daemon does', async (t) => {
  const problem = { code: 'starting_up', detail: 'The daemon is starting.', status: 503, retryable: true }
  const waits: (string | undefined)[] = ['7', undefined, 'Tue, 24 Nov 2026 00:00:00 GMT']
  const client = await clientOf(t, (_request, response) => {
    const wait = waits.shift()
    const headers = wait === undefined ? {} : { 'retry-after': wait }
    response
      .writeHead(503, { 'content-type': 'application/problem+json', ...headers })
      .end(JSON.stringify(problem))
  })
  const seconds: (number | undefined)[] = []
  for (let count = 0; count < 3; count += 1)
    await assert.rejects(list(client), (error: unknown) => {
      assert.ok(error instanceof ApiProblem)
      seconds.push(error.retryAfterSeconds)
      return true
    })
  assert.deepEqual(seconds, [7, undefined, undefined])
})

test('an answer without an end is not kept: the request fails, and its connection is closed', async (t) => {
  const chunk = Buffer.alloc(1024 * 1024, ' ')
  const { promise: closed, resolve } = Promise.withResolvers<void>()
  const client = await clientOf(t, (_request, response) => {
    response.on('close', resolve)
    response.writeHead(200, { 'content-type': 'application/json' })
    const send = (): void => {
      while (!response.destroyed && response.write(chunk));
    }
    response.on('drain', send)
    send()
  })
  await assert.rejects(list(client), UnexpectedAnswer)
  await closed
})
