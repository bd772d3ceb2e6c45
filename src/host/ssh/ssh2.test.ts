import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { Client, connectFailure, guardAgainstServer } from './ssh2.ts'
import type { TestContext } from 'node:test'
import type { SshError } from './ssh2.ts'

const errorOf = (fields: Partial<SshError>, message = 'words'): SshError =>
  Object.assign(new Error(message), fields)

const cases: readonly (readonly [string, Partial<SshError>, string])[] = [
  ['nothing listens', { level: 'client-socket', code: 'ECONNREFUSED' }, 'refused'],
  ['no neighbour answers', { level: 'client-socket', code: 'EHOSTUNREACH' }, 'no_route'],
  ['there is no route', { level: 'client-socket', code: 'ENETUNREACH' }, 'no_route'],
  ['a firewall of the host forbids it', { level: 'client-socket', code: 'EPERM' }, 'no_route'],
  ['the kernel gave up', { level: 'client-socket', code: 'ETIMEDOUT' }, 'timed_out'],
  ['the connection was reset', { level: 'client-socket', code: 'ECONNRESET' }, 'failed'],
  ['no method of authentication is left', { level: 'client-authentication' }, 'key_refused'],
  ['the guest takes leave for that reason', { code: 14 }, 'key_refused'],
  ['the guest takes leave for another reason', { code: 2 }, 'failed'],
  ['no answer to keepalives', { level: 'client-timeout' }, 'timed_out'],
  ['no common algorithm', { level: 'handshake' }, 'failed'],
  ['a packet that is none', { level: 'protocol' }, 'failed'],
  ['an errno of something else than the connection', { code: 'ECONNREFUSED' }, 'failed'],
]
for (const [what, fields, kind] of cases) {
  test(`${what}: ${kind}`, () => assert.equal(connectFailure(errorOf(fields)).kind, kind))
}

test('text from a guest is not passed on, nor characters that could control a terminal', () => {
  const said = connectFailure(errorOf({ code: 2 }, 'CANARY'))
  assert.equal(said.detail, 'the guest ended the connection with SSH reason 2')
  const refused = Object.assign(errorOf({}, '(SSH) Channel open failure: CANARY'), { reason: 4 })
  assert.equal(connectFailure(refused).detail, 'the guest refused a channel with SSH reason 4')
  const odd = connectFailure(errorOf({ level: 'handshake' }, 'no \u001b[2J\r\nmatch \u202e\u00e9'))
  assert.match(odd.detail, /^[ -~]+$/)
})

type Handler = (protocol: object, name?: string, wantsReply?: boolean, data?: unknown) => void
type Handlers = Record<'GLOBAL_REQUEST' | (typeof AUTHENTICATION)[number], Handler>
const AUTHENTICATION = ['SERVICE_ACCEPT', 'USERAUTH_PK_OK', 'USERAUTH_SUCCESS', 'USERAUTH_FAILURE'] as const

/** A client that is not connected to anything, and the handlers that ssh2 has for its server. */
function clientOf(t: TestContext): { readonly client: Client; readonly handlers: () => Handlers } {
  const client = new Client()
  client.on('error', () => {})
  client.connect({ sock: new PassThrough(), username: 'root', password: 'none' })
  t.after(() => client.destroy())
  const handlers = (): Handlers =>
    (client as unknown as { _protocol: { _handlers: Handlers } })._protocol._handlers
  return { client, handlers }
}

for (const message of AUTHENTICATION) {
  test(`a client obeys ${message} of its server once`, (t) => {
    const { client, handlers } = clientOf(t)
    assert.equal(typeof handlers()[message], 'function', 'ssh2 has the handler that is replaced')
    let obeyed = 0
    handlers()[message] = () => (obeyed += 1)
    guardAgainstServer(client, assert.fail)
    for (const _time of [1, 2, 3]) handlers()[message]({})
    assert.equal(obeyed, 1)
  })
}

test('a client refuses what a server asks of it, also to check more host keys', (t) => {
  const { client, handlers } = clientOf(t)
  const before = handlers().GLOBAL_REQUEST
  assert.equal(typeof before, 'function', 'ssh2 has the handler that is replaced')
  guardAgainstServer(client, assert.fail)
  assert.notEqual(handlers().GLOBAL_REQUEST, before)
  const answers: string[] = []
  const protocol = { requestFailure: () => answers.push('refused') }
  handlers().GLOBAL_REQUEST(protocol, 'hostkeys-00@openssh.com', true, [Buffer.from('no key')])
  handlers().GLOBAL_REQUEST(protocol, 'hostkeys-00@openssh.com', false, [Buffer.from('no key')])
  assert.deepEqual(answers, ['refused'])
})
