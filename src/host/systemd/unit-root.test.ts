import assert from 'node:assert/strict'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { atEnd } from '../../../test/contract/at-end.ts'
import { HOST_PATHS, makeUnitRoot, removeUnitRoot } from './unit-root.ts'

const rootIn = (t: TestContext): string => {
  const directory = mkdtempSync(join(tmpdir(), 'unit-root-'))
  atEnd(t, () => rmSync(directory, { recursive: true }))
  return join(directory, 'root', 'web-1')
}

const isLink = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false

test('links of the host are links in a root, and the rest must be mounted', (t) => {
  const directory = rootIn(t)
  const umask = process.umask(0o077)
  atEnd(t, () => process.umask(umask))
  const links = HOST_PATHS.filter(isLink)
  assert.deepEqual(makeUnitRoot(directory), {
    directory,
    mounted: HOST_PATHS.filter((path) => !links.includes(path)),
  })
  for (const path of links) assert.equal(readlinkSync(join(directory, path)), readlinkSync(path))
  assert.equal(statSync(directory).mode & 0o777, 0o755)
  assert.deepEqual(makeUnitRoot(directory), makeUnitRoot(directory))
})

test('a link that is deeper, or leads elsewhere than to a mounted directory, must be mounted', (t) => {
  const directory = rootIn(t)
  const parent = mkdtempSync('/usr-')
  atEnd(t, () => rmSync(parent, { recursive: true }))
  const [deeper, elsewhere] = [join(parent, 'link'), `${parent}-link`]
  symlinkSync('/usr/lib', deeper)
  symlinkSync(parent, elsewhere)
  atEnd(t, () => rmSync(elsewhere))
  assert.deepEqual(makeUnitRoot(directory, [deeper, elsewhere]).mounted, [deeper, elsewhere])
})

test('a root that was made for another layout of the host gets mounts', (t) => {
  const directory = rootIn(t)
  for (const path of HOST_PATHS) mkdirSync(join(directory, path), { recursive: true })
  assert.deepEqual(makeUnitRoot(directory).mounted, HOST_PATHS)
})

test('a root is removed with all that systemd made in it, and what its links lead to stays', (t) => {
  const directory = rootIn(t)
  makeUnitRoot(directory)
  mkdirSync(join(directory, 'var/lib/pool'), { recursive: true })
  removeUnitRoot(directory)
  removeUnitRoot(directory)
  assert.ok(!existsSync(directory))
  assert.ok(readdirSync('/usr/lib').length > 0)
})
