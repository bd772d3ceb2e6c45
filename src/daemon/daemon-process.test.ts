import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { recordingLog } from '../../test/recording-log.ts'
import { limits } from '../config/limits.ts'
import { endWork, guestsTimes } from './daemon-process.ts'

const moduleOf = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href)

/** Runs code in a separate process that logs as the daemon does. Returns its output, both streams together. */
function run(code: string): { readonly status: number | null; readonly lines: readonly string[] } {
  const script = `
    import { createLog } from ${moduleOf('../log/logger.ts')}
    import { logWhatNodeSays } from ${moduleOf('./daemon-process.ts')}
    logWhatNodeSays(createLog({ level: 'info' }))
    ${code}`
  const argv = ['--disable-warning=ExperimentalWarning', '--input-type=module-typescript', '--eval', script]
  const { status, stdout, stderr } = spawnSync(process.execPath, argv, { encoding: 'utf8' })
  return { status, lines: `${stdout}${stderr}`.split('\n').filter((line) => line !== '') }
}

const ENDS = {
  'an exception that nothing catches': "setImmediate(() => { throw new Error('on purpose') })",
  'a rejection that nothing handles': "void Promise.reject(new Error('on purpose'))",
}

for (const [end, code] of Object.entries(ENDS)) {
  test(`${end} is one line of the log, and ends the process`, () => {
    const { status, lines } = run(`${code}; setInterval(() => {}, 1000)`)
    assert.equal(status, 1)
    const [line, ...others] = lines.map((text) => JSON.parse(text) as Record<string, unknown>)
    assert.deepEqual(others, [])
    assert.ok(line !== undefined)
    assert.equal(line['level'], 'error')
    assert.equal((line['error'] as { message?: string }).message, 'on purpose')
  })
}

test('a warning of Node is a line of the log', () => {
  const { status, lines } = run("process.emitWarning('mind the gap')")
  assert.equal(status, 0)
  const warnings = lines.map((text) => JSON.parse(text) as Record<string, unknown>)
  assert.deepEqual(
    warnings.map(({ level, error }) => [level, (error as { message?: string }).message]),
    [['warn', 'mind the gap']],
  )
})

test('a shutdown of the host has time to note the guests that are left, after the last look at them', () => {
  for (const boundMs of [1000, 2000, 10_000, 120_000, limits.shutdownMsMax]) {
    const { savesMs, waitMs } = guestsTimes(boundMs)
    assert.ok(boundMs - waitMs > limits.shutdownLookMs, `${boundMs} ms`)
    assert.ok(savesMs >= waitMs / 2 && savesMs < waitMs, `${boundMs} ms`)
  }
})

const BOUND_MS = 20

test('a stop waits for all work, and logs nothing if it ends in time', async () => {
  const { log, lines } = recordingLog()
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let over = false
  const stop = endWork({ first: first.promise, second: second.promise, absent: undefined }, 60_000, log).then(
    () => (over = true),
  )
  first.resolve()
  await first.promise
  await new Promise(setImmediate)
  assert.equal(over, false)
  second.resolve()
  await stop
  assert.deepEqual(lines, [])
})

test('a stop waits no longer than its bound, and names what still runs', async () => {
  const { log, lines } = recordingLog()
  const startedAt = performance.now()
  await endWork({ done: Promise.resolve(), stuck: new Promise(() => {}) }, BOUND_MS, log)
  // Timers of Node may fire up to a millisecond early.
  assert.ok(performance.now() - startedAt >= BOUND_MS - 1)
  assert.deepEqual(
    lines.map(({ level, under_way, bound_ms }) => ({ level, under_way, bound_ms })),
    [{ level: 'warn', under_way: ['stuck'], bound_ms: BOUND_MS }],
  )
})

test('work that fails to end is named, and keeps no other from ending', async () => {
  const { log, lines } = recordingLog()
  const other = Promise.withResolvers<void>()
  const stop = endWork({ broken: Promise.reject(new Error('no way')), other: other.promise }, 60_000, log)
  await new Promise(setImmediate)
  other.resolve()
  await stop
  assert.deepEqual(
    lines.map(({ level, work, reason }) => ({ level, work, reason })),
    [{ level: 'error', work: 'broken', reason: 'no way' }],
  )
})
