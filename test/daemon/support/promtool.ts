import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { promtool } from '../../../tools/promtool.ts'
import { StepFailed } from '../../../tools/step.ts'
import type { TestContext } from 'node:test'

/** Runs promtool, and fails if that finds something wrong. Skips the test if promtool cannot be had, but not in CI. */
export async function runPromtool(t: TestContext, args: readonly string[], input = ''): Promise<string> {
  const program = await promtoolOrReason()
  if (typeof program !== 'string') {
    if (process.env['CI'] === 'true') throw program
    t.skip(`promtool cannot be fetched: ${program.message}`)
    return ''
  }
  const { status, stdout, stderr } = spawnSync(program, args, { input, encoding: 'utf8' })
  assert.equal(status, 0, `${stdout}${stderr}`)
  return `${stdout}${stderr}`
}

/** Fails if a text is not as Prometheus wants metrics to be. */
export async function lintMetrics(t: TestContext, text: string): Promise<void> {
  assert.equal((await runPromtool(t, ['check', 'metrics'], text)).trim(), '')
}

async function promtoolOrReason(): Promise<string | Error> {
  try {
    return await promtool()
  } catch (error) {
    if (error instanceof StepFailed) return error
    throw error
  }
}
