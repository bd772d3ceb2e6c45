import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cutAnswer, servePage } from '../../../test/page-server.ts'
import { UnexpectedAnswer } from '../../client/api-problem.ts'
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
