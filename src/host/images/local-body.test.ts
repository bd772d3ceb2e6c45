import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { faults } from '../../core/problems/catalogue.ts'
import { openLocal } from './local-body.ts'

test('what is not a regular file comes with a remedy that names it, and a path outside with the one for that', async (t) => {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'local-')))
  t.after(() => rmSync(base, { recursive: true }))
  const inside = join(base, 'images')
  mkdirSync(join(inside, 'folder'), { recursive: true })
  execFileSync('mkfifo', [join(inside, 'fifo')])
  writeFileSync(join(base, 'image'), 'image')
  const opening = (path: string) => openLocal(pathToFileURL(join(inside, path)), inside, 'reading it')
  for (const path of ['folder', 'fifo'])
    await assert.rejects(opening(path), {
      code: 'image_unavailable',
      message: 'reading it',
      cause: new Error('it is not a regular file'),
    })
  assert.match(faults.image_unavailable.remedy, /regular file/)
  await assert.rejects(opening('../image'), { code: 'image_source_refused' })
})
