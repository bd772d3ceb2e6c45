/** Every returned answer here is compared with the OpenAPI document; see support/documented.ts. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { createBody, makePki, startControllerHost } from './support/controller-host.ts'
import { describedApp } from '../../tools/openapi-document.ts'
import { endingPath } from './support/ending-path.ts'
import type { Call, Json, Pki } from './support/controller-host.ts'

let pki: Pki
let routes: { readonly method: string; readonly path: string }[]
before(async () => {
  pki = await makePki()
  const document: Json = (await (await describedApp()).inject('/docs/swagger.json')).json()
  routes = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path })),
  )
})

/** A call with a body in ASCII. Without a length, Node frames no body of a method that seldom has one. */
const withLength = (body: string, headers: Record<string, string> = {}): Partial<Call> => ({
  body,
  headers: { ...headers, 'content-length': String(body.length) },
})

const wrongs: readonly (readonly [
  string,
  Partial<Call> & { readonly query?: string; readonly id?: string },
])[] = [
  ['nothing at all', {}],
  ['a missing VM', { id: 'missing' }],
  ['an invalid id', { id: 'No_Id' }],
  ['an unknown query parameter', { query: '?colour=1' }],
  ['a stale revision', { headers: { 'if-match': '"0"' } }],
  ['a body that is not JSON', withLength('x')],
  ['a body of another type', withLength('x', { 'content-type': 'text/plain' })],
  ['a body that is too large', withLength(JSON.stringify('x'.repeat(limits.bodyBytesMax)))],
  ['headers that are too large', { headers: { 'x-long': 'x'.repeat(limits.headerBytesMax) } }],
]

for (const [what, { query = '', id = 'web-1', ...wrong }] of wrongs) {
  test(`every route answers ${what} as its description says`, async (t) => {
    const host = await startControllerHost(t, pki)
    await host.call({ method: 'PUT', path: '/v1/vms/web-1', body: createBody() })
    for (const { method, path } of routes) {
      const answer = await host.call({
        method,
        path: (query === '' ? endingPath(path) : path + query).replace('{id}', id),
        ...wrong,
      })
      assert.notEqual(answer.status, 500, `${method} ${path}`)
    }
  })
}

test('every route answers as its description says while the store is not open', async (t) => {
  const host = await startControllerHost(t, pki)
  host.storeIsOpen = false
  host.waitingFor = ['the store']
  for (const { method, path } of routes) {
    const answer = await host.call({ method, path: endingPath(path).replace('{id}', 'web-1') })
    assert.notEqual(answer.status, 500, `${method} ${path}`)
  }
})

test('every route answers a stranger as its description says', async (t) => {
  const host = await startControllerHost(t, pki)
  const stranger = await pki.issue({ commonName: 'stranger' })
  const client = { ca: pki.authority.certificate, cert: stranger.certificate, key: stranger.key }
  for (const { method, path } of routes) {
    const answer = await host.call({ method, path: endingPath(path).replace('{id}', 'web-1'), client })
    assert.equal(answer.status, 403, `${method} ${path}`)
  }
})
