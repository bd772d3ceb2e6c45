import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { removeOtherPackages } from './other-packages.ts'

test('the package of another version does not stay beside a new one', (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'packages-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const own = ['vmhostd_0.10.0_amd64.cdx.json', 'vmhostd_0.10.0_amd64.deb']
  const stay = ['promtool', 'vmhostd', 'vmhostd_0.9.0_amd64.deb.12.new']
  const go = ['vmhostd_0.9.0_amd64.cdx.json', 'vmhostd_0.9.0_amd64.deb', 'vmhostd_0.10.1_amd64.deb']
  for (const name of [...own, ...stay, ...go]) writeFileSync(path.join(folder, name), '')
  mkdirSync(path.join(folder, 'release'))
  removeOtherPackages(path.join(folder, 'vmhostd_0.10.0_amd64.deb'))
  assert.deepEqual(readdirSync(folder).toSorted(), [...own, ...stay, 'release'].toSorted())
})
