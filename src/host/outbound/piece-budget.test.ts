import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { ANYWHERE } from '../../../test/fakes/outbound.ts'
import { breakStore } from '../../../test/broken-store.ts'
import type { BrokenRequest } from '../../../test/broken-store.ts'
import { limits } from '../../config/limits.ts'
import { OutboundFailure } from './outbound-failure.ts'
import { Outbound } from './outbound-request.ts'

const HEAD = 'HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n'
const END = '0\r\n\r\n'
const chunksOf = (bytes: number, count: number): string =>
  `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`.repeat(count)

/** Reads a body from a server. Time stands still but for the pauses, which end at once. */
async function read(t: TestContext, behave: (request: BrokenRequest) => Promise<void> | void) {
  const store = await breakStore(t, behave)
  let sleptMs = 0
  const pieceTime = {
    monotonicMs: () => sleptMs,
    sleep: async (ms: number) => void (sleptMs += ms),
  }
  const policy = { ...ANYWHERE, allowHttp: true, allowedNetworks: ['127.0.0.0/8'] }
  const outbound = new Outbound({ policy, pieceTime })
  t.after(() => outbound.close())
  let bytes = 0
  let failure: unknown
  try {
    const signal = new AbortController().signal
    const answer = await outbound.ask({ method: 'GET', url: new URL(store.url), signal })
    for await (const chunk of answer.chunks) bytes += chunk.length
    await answer.close()
  } catch (error) {
    failure = error
  }
  return { bytes, sleptMs, failure }
}

/** The time in which the budget lets so many single bytes come. */
const msFor = (pieces: number): number =>
  ((pieces * (1 - 1 / limits.outboundPieceBytes) - limits.outboundPiecesBurst) * 1000) /
  limits.outboundPiecesPerSecond

test('a body of single bytes is read as slowly as the budget of pieces says, and whole', async (t) => {
  const count = 100_000
  const { bytes, sleptMs, failure } = await read(t, ({ socket }) => {
    socket.write(HEAD + chunksOf(1, count) + END)
  })
  assert.deepEqual([bytes, failure], [count, undefined])
  assert.ok(Math.abs(sleptMs - msFor(count)) < 100, `it slept ${sleptMs} ms, and not ${msFor(count)}`)
})

test('a body that breaks off pays for its pieces too', async (t) => {
  const count = 60_000
  const { sleptMs, failure } = await read(t, ({ socket }) => {
    socket.end(HEAD + chunksOf(1, count))
  })
  assert.ok(failure instanceof OutboundFailure)
  assert.ok(sleptMs > msFor(count) - 100, `it slept ${sleptMs} ms`)
})

for (const [bytes, count] of [
  [64 * 1024, 512],
  [16 * 1024, 2048],
  [2048, 16_384],
  [1, 8000],
] as const)
  test(`${count} chunks of ${bytes} bytes are not slowed`, async (t) => {
    const got = await read(t, ({ socket }) => {
      socket.write(HEAD + chunksOf(bytes, count) + END)
    })
    assert.deepEqual(got, { bytes: bytes * count, sleptMs: 0, failure: undefined })
  })

test('long pieces pay for short ones among them', async (t) => {
  const count = 20_000
  const { bytes, sleptMs } = await read(t, ({ socket }) => {
    socket.write(HEAD + (chunksOf(2200, 1) + chunksOf(1, 1)).repeat(count) + END)
  })
  assert.deepEqual([bytes, sleptMs], [2201 * count, 0])
})

const information = (count: number): string => 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(count)

test('some informational answers may come before the answer', async (t) => {
  const { bytes, failure } = await read(t, ({ socket, answer }) => {
    socket.write(information(limits.outboundInformationMax))
    answer(200, {}, 'whole')
  })
  assert.deepEqual([bytes, failure], [5, undefined])
})

test('a server that sends informational answers without end is given up', async (t) => {
  const { failure } = await read(t, ({ socket }) => {
    socket.write(information(limits.outboundInformationMax + 1))
  })
  assert.ok(failure instanceof OutboundFailure)
  assert.match(failure.message, /it sent 33 informational answers and no other/)
})
