import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { findFirecracker } from './firecracker.ts'

test('Firecracker is the program that the environment names, or else the first on PATH', (t) => {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'fc-')))
  t.after(() => rmSync(folder, { recursive: true }))
  const [own, onPath] = [path.join(folder, 'own'), path.join(folder, 'firecracker')]
  for (const file of [own, onPath]) {
    writeFileSync(file, '')
    chmodSync(file, 0o755)
  }
  assert.equal(findFirecracker({ VMHOSTD_FIRECRACKER: own, PATH: folder }), own)
  assert.equal(findFirecracker({ VMHOSTD_FIRECRACKER: '', PATH: `/nowhere:${folder}` }), onPath)
  assert.equal(findFirecracker({ PATH: '/nowhere' }), undefined)
  chmodSync(own, 0o644)
  assert.throws(() => findFirecracker({ VMHOSTD_FIRECRACKER: path.join(folder, 'none') }), /is not a program/)
})
