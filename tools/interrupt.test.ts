import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'

/**
 * Sends SIGINT to a program that imports the tools when it has written a line; returns its status and all its output.
 */
async function interrupted(t: TestContext, source: string): Promise<{ code: unknown; output: string }> {
  const cache = mkdtempSync(path.join(tmpdir(), 'interrupt-'))
  t.after(() => rmSync(cache, { recursive: true, force: true }))
  const long = `import { writeFileSync } from 'node:fs'; writeFileSync('${cache}/begun', ''); setTimeout(() => {}, 3000)`
  writeFileSync(path.join(cache, 'long.test.ts'), long)
  const program = source.replaceAll('TOOLS', import.meta.dirname).replaceAll('CACHE', cache)
  const argv = ['--no-warnings', '--input-type=module-typescript', '--eval', program]
  // Without the context of this runner, or the inner one would run nothing.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const child = spawn(process.execPath, argv, {
    env: { ...env, VMHOSTD_CACHE: cache },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const heard = (chunk: Buffer): void => {
    if (output === '') child.kill('SIGINT')
    output += chunk.toString()
  }
  child.stdout.on('data', heard)
  child.stderr.on('data', heard)
  const [code] = await once(child, 'exit')
  return { code, output }
}

test('Ctrl-C ends a run of tests as a whole, and cleans up', async (t) => {
  const { code, output } = await interrupted(
    t,
    `import { runHere } from 'TOOLS/run-tests.ts'
    import { withCleanup } from 'TOOLS/interrupt.ts'
    import { existsSync } from 'node:fs'
    const look = setInterval(() => {
      if (!existsSync('CACHE/begun')) return
      clearInterval(look)
      console.log('begun')
    }, 20)
    await withCleanup(async () => console.log('cleaned'), () => runHere(['CACHE/long.test.ts']))
    console.log('went on')`,
  )
  assert.equal(code, 130)
  assert.match(output, /^cleaned$/m)
  assert.doesNotMatch(output, /went on/)
})

test('a command that a person works with decides about Ctrl-C', async (t) => {
  const { code, output } = await interrupted(
    t,
    `import { runAttached } from 'TOOLS/process.ts'
    await runAttached(['sh', '-c', 'echo begun; sleep 0.5; echo end'])
    console.log('went on')`,
  )
  assert.equal(code, 0)
  assert.match(output, /end\nwent on/)
})
