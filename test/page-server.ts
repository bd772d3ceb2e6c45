import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'

/**
 * Serves each request of a page with `answer`: `fetch` takes paths, as in a browser. Calls `onHead` when the page has
 * the head of an answer. Returns host and port.
 */
export async function servePage(
  t: TestContext,
  answer: (response: ServerResponse) => void,
  onHead = (): void => {},
): Promise<string> {
  const server = createServer((_request, response) => answer(response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const { fetch } = globalThis
  t.mock.method(globalThis, 'fetch', async (path: string, init: RequestInit) => {
    const head = await fetch(`http://${host}${path}`, init)
    onHead()
    return head
  })
  return host
}

/** Sends an answer without its end. */
export function beginAnswer(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.write('{"items": [')
}

/** Returns an answer without its end, and what cuts its connection. */
export function cutAnswer(): {
  readonly answer: (response: ServerResponse) => void
  readonly cut: () => void
} {
  let begun: ServerResponse | undefined
  const answer = (response: ServerResponse): void => {
    begun = response
    beginAnswer(response)
  }
  return { answer, cut: () => begun?.destroy() }
}
