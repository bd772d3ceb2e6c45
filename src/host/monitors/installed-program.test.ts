import assert from 'node:assert/strict'
import { chmod, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { run } from '../exec/exec.ts'
import { InstalledProgram } from './installed-program.ts'

test('the installed program is run again only when its file has changed', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'vmh-'))
  t.after(() => rm(directory, { recursive: true }))
  const program = join(directory, 'monitor')
  const install = async (version: string): Promise<void> => {
    const script = `#!/bin/sh\necho run >>${directory}/runs\necho ${version}\n`
    await writeFile(`${program}.new`, script)
    await chmod(`${program}.new`, 0o755)
    await rename(`${program}.new`, program)
  }
  const installed = new InstalledProgram(program, async (path) => (await run([path])).stdout.trim())
  await assert.rejects(installed.version(), { code: 'monitor_missing' })
  await install('10.0.2')
  assert.deepEqual(await Promise.all([installed.version(), installed.version()]), ['10.0.2', '10.0.2'])
  assert.equal(await installed.version(), '10.0.2')
  assert.equal(await readFile(`${directory}/runs`, 'utf8'), 'run\n')
  await install('10.0.13')
  assert.equal(await installed.version(), '10.0.13')
})
