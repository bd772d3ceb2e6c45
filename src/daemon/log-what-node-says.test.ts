import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

const moduleOf = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href)

/** Runs code in a separate process that logs as the daemon does. Returns its output, both streams together. */
function run(code: string): { readonly status: number | null; readonly lines: readonly string[] } {
  const script = `
    import { createLog } from ${moduleOf('../log/logger.ts')}
    import { logWhatNodeSays } from ${moduleOf('./log-what-node-says.ts')}
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
