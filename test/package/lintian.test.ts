import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ensurePackages, LINTIAN, wanting } from '../../tools/apt.ts'
import { buildDeb } from '../../tools/deb.ts'
import { run } from '../../tools/process.ts'

/** An older or newer lintian may not know what an override is for. */
const ABOUT_OVERRIDES = 'unused-override,mismatched-override,alien-tag'

test(
  'lintian finds nothing in the package that has no override with a reason',
  { skip: wanting(LINTIAN) },
  async () => {
    await ensurePackages([LINTIAN])
    const options = [
      '--allow-root',
      '--no-cfg',
      '--display-info',
      '--pedantic',
      '--suppress-tags',
      ABOUT_OVERRIDES,
    ]
    // It unpacks all of the package, for which memory is too precious.
    const env = { ...process.env, TMPDIR: '/var/tmp' }
    const { code, stdout, stderr } = await run(['lintian', ...options, await buildDeb()], { env })
    assert.deepEqual([stdout, stderr, code], ['', '', 0])
  },
)
