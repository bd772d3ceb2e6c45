import assert from 'node:assert/strict'
import { test } from 'node:test'
import { conclude, runStatic } from './check.ts'

test('a check that failed comes again at the end of a run, with its output', async (t) => {
  const script = "console.log('a.ts(1,1): error TS1000'); process.exit(1)"
  const counts = await runStatic([
    { name: 'some types', argv: [process.execPath, '-e', script] },
    { name: 'others', argv: [process.execPath, '-e', ''] },
  ])
  assert.deepEqual([counts.passed, counts.failed], [1, 1])
  const log = t.mock.method(console, 'log', () => {})
  assert.equal(conclude(counts, 0), 1)
  const said = log.mock.calls.map((call) => String(call.arguments[0]))
  log.mock.restore()
  assert.equal(said[0], '  failed: some types\n      a.ts(1,1): error TS1000')
})
