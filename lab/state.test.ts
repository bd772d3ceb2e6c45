import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'

/** So many that their removal is seen under way. */
const FILES = 5000
const LONG_AGO = new Date('2026-01-01T00:00:00Z')

test('a cache entry whose removal is killed does not count as an entry', async (t) => {
  const cache = mkdtempSync(path.join(tmpdir(), 'state-'))
  t.after(() => rmSync(cache, { recursive: true, force: true }))
  const [own, old] = [path.join(cache, 'roots/own'), path.join(cache, 'roots/old')]
  for (const folder of [own, old]) mkdirSync(folder, { recursive: true })
  for (let at = 0; at < FILES; at += 1) writeFileSync(path.join(old, String(at)), '')
  utimesSync(old, LONG_AGO, LONG_AGO)
  const source = `import { useCached } from '${import.meta.dirname}/state.ts'; useCached('${own}')`
  const argv = ['--no-warnings', '--input-type=module-typescript', '--eval', source]
  const user = spawn(process.execPath, argv, { env: { ...process.env, VMHOSTD_CACHE: cache } })
  const ended = once(user, 'exit')
  while (user.exitCode === null && leftIn(old) === FILES) await new Promise(setImmediate)
  user.kill('SIGKILL')
  await ended
  assert.ok(!existsSync(old), `${leftIn(old)} of ${FILES} files are left under the name of the whole entry`)
  assert.ok(existsSync(own))
})

/** Returns how many files a folder has; 0 if its name is gone, also in this very moment. */
function leftIn(folder: string): number {
  try {
    return readdirSync(folder).length
  } catch {
    return 0
  }
}
