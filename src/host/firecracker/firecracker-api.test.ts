import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener } from 'node:http'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { limits } from '../../config/limits.ts'
import { MonitorLost, MonitorRefusal } from '../monitors/monitor-error.ts'
import { askFirecracker } from './firecracker-api.ts'

const never = new AbortController().signal

/** A program in the place of Firecracker. */
async function served(t: TestContext, answer: RequestListener): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-'))
  const server = createServer(answer)
  t.after(() => {
    server.closeAllConnections()
    server.close()
    rmSync(directory, { recursive: true })
  })
  const path = join(directory, 'api.sock')
  await once(server.listen(path), 'listening')
  return path
}

/** Does something again and again until the connection ends. */
function untilClosed({ socket }: IncomingMessage, write: () => void): void {
  const timer = setInterval(write, 5)
  socket.once('close', () => clearInterval(timer))
}

test('a request has its body, and its answer is returned', async (t) => {
  const path = await served(t, (request, response) => {
    request.on('data', (body: Buffer) =>
      response.end(`["${request.method} ${request.url}", ${String(body)}]`),
    )
  })
  const body = { state: 'Paused' }
  const answer = await askFirecracker(path, { method: 'PATCH', target: '/vm', body }, never)
  assert.deepEqual(answer, ['PATCH /vm', body])
})

test('an answer without content is undefined', async (t) => {
  const path = await served(t, (_request, response) => response.writeHead(204).end())
  assert.equal(await askFirecracker(path, { method: 'PUT', target: '/actions' }, never), undefined)
})

test('a refusal has the reason of Firecracker, cut', async (t) => {
  const path = await served(t, (_request, response) =>
    response
      .writeHead(400)
      .end(JSON.stringify({ fault_message: `The request is bad. ${'x'.repeat(10_000)}` })),
  )
  await assert.rejects(askFirecracker(path, { method: 'GET', target: '/' }, never), (error: unknown) => {
    assert.ok(error instanceof MonitorRefusal)
    assert.match(error.message, /^The request is bad\. x/)
    assert.ok(error.message.length <= limits.monitorTextCharactersMax)
    return true
  })
})

for (const [what, answer, why] of [
  ['that never comes', () => {}, 'no answer'],
  [
    'that is too long',
    (_request, response) => void response.end(Buffer.alloc(limits.firecrackerAnswerBytesMax + 1, ' ')),
    'an answer that is too long',
  ],
  ['that is cut off', (request) => void request.socket.destroy(), 'ECONNRESET'],
  [
    'that changes the protocol',
    ({ socket }) => void socket.write('HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
    'closed',
  ],
  [
    'that is announced',
    ({ socket }) => void socket.write('HTTP/1.1 103 X\r\n\r\n'),
    'an informational answer',
  ],
  [
    'before which it asks for the request',
    (_request, response) => response.writeContinue(),
    'an informational answer',
  ],
  [
    'that comes byte by byte without end',
    (request, response) => untilClosed(request, () => response.write(' ')),
    'no answer',
  ],
  ['that stops in its middle', (_request, response) => void response.write('{'), 'no answer'],
] as const satisfies readonly (readonly [string, RequestListener, string])[]) {
  test(`an answer ${what} is a loss`, async (t) => {
    const path = await served(t, answer)
    const withinMs = why === 'no answer' ? 300 : 60_000
    const asked = { method: 'GET', target: '/', withinMs } as const
    await assert.rejects(askFirecracker(path, asked, never), (error: unknown) => {
      assert.ok(error instanceof MonitorLost)
      assert.equal(error.why, why)
      return true
    })
  })
}

test('an abort ends the waiting with its reason, and nothing is sent after it', async (t) => {
  let requests = 0
  const path = await served(t, () => {
    requests += 1
  })
  const reason = new Error('the VM is being deleted')
  await assert.rejects(
    askFirecracker(path, { method: 'GET', target: '/' }, AbortSignal.abort(reason)),
    reason,
  )
  assert.equal(requests, 0)
  const aborting = new AbortController()
  const asked = askFirecracker(path, { method: 'GET', target: '/' }, aborting.signal)
  setTimeout(() => aborting.abort(reason), 20)
  await assert.rejects(asked, reason)
})

test('without a program there is nothing to ask', async () => {
  await assert.rejects(askFirecracker('/run/none/api.sock', { method: 'GET', target: '/' }, never), {
    why: 'ENOENT',
  })
})
