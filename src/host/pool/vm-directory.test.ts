import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import { markPool } from './pool-marker.ts'
import { PASSAGE_MODE, poolPaths, PRIVATE_MODE } from './pool-paths.ts'
import { isAsMade, makeVmDirectory } from './vm-directory.ts'

const id = 'web-1' as VmId

test('the making of a directory that was cut short is finished, and a finished one is left as it is', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-directory-'))
  t.after(() => rmSync(directory, { recursive: true }))
  await markPool(directory)
  const paths = poolPaths(directory)
  mkdirSync(paths.vm(id), { mode: PRIVATE_MODE })
  assert.equal(isAsMade(statSync(paths.vm(id))), false)
  await makeVmDirectory(paths, id)
  const made = statSync(paths.vm(id), { bigint: true })
  assert.equal(Number(made.mode & 0o777n), PASSAGE_MODE)
  assert.equal(isAsMade(statSync(paths.vm(id))), true)
  await makeVmDirectory(paths, id)
  assert.equal(statSync(paths.vm(id), { bigint: true }).ctimeNs, made.ctimeNs)
  chmodSync(paths.vm(id), 0o777)
  await makeVmDirectory(paths, id)
  assert.equal(isAsMade(statSync(paths.vm(id))), true)
})
