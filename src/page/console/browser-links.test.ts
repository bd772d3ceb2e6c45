import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stallSockets } from '../../../test/stalled-socket.ts'
import { cutAnswer, servePage } from '../../../test/page-server.ts'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { UnexpectedAnswer } from '../../client/api-problem.ts'
import { limits } from '../../config/limits.ts'
import { ConnectionFailed } from '../../client/connection-failed.ts'
import { browserLinks } from './browser-links.ts'
import type { TestContext } from 'node:test'

/** Opens a link to a server that refuses every WebSocket. */
function open(t: TestContext, host: string): Promise<unknown> {
  Object.defineProperty(globalThis, 'location', { value: { host }, configurable: true })
  t.after(() => Reflect.deleteProperty(globalThis, 'location'))
  const never = (): void => assert.fail('the server refuses every WebSocket')
  const listeners = { onText: never, onBytes: never, onPing: never, onClosed: () => {} }
  return browserLinks.open('/v1/vms/web-1/console', listeners, t.signal)
}

test('a reason that is cut off means that the daemon is away, not that another server answers', async (t) => {
  const { answer, cut } = cutAnswer()
  await assert.rejects(open(t, await servePage(t, answer, cut)), ConnectionFailed)
})

test('a reason that is not JSON is of another server', async (t) => {
  const host = await servePage(t, (response) => response.end('<p>Welcome'))
  await assert.rejects(open(t, host), UnexpectedAnswer)
})

test('a message counts as sent when the browser has room for more, or the connection is gone', async (t) => {
  const sockets = stallSockets(t)
  const listeners = { onText: () => {}, onBytes: () => {}, onPing: () => {}, onClosed: () => {} }
  const opening = browserLinks.open('/v1/vms/web-1/console', listeners, t.signal)
  const [socket] = sockets
  assert.ok(socket !== undefined)
  socket.begin()
  const link = await opening
  const large = new Uint8Array(limits.consolePageUnsentBytesMax + 1)
  let isSent: boolean | undefined
  const sent = link.send(large).then((was) => (isSent = was))
  await nextTurn()
  assert.equal(isSent, undefined)
  socket.bufferedAmount = 0
  assert.equal(await sent, true)
  const lost = link.send(large)
  socket.close()
  assert.equal(await lost, false)
})
