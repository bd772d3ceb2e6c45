import assert from 'node:assert/strict'
import { lstat, mkdir, mkdtemp, open, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { UserId, VmId } from '../../core/ids.ts'
import { unitSpecOf } from '../../../test/fakes/unit-spec.ts'
import { makeRuntimeFile, makeRuntimeFiles } from './runtime-directories.ts'

const userId = (process.getuid?.() === 0 ? 700_001 : process.getuid?.()) as UserId
const specOf = (...runtimeFiles: { name: string; content: string }[]) =>
  unitSpecOf('web-1' as VmId, { runtimeDirectory: 'vmhostd/vm/web-1', userId, runtimeFiles })

test('the runtime directory has its files alone, readable for its user', async (t) => {
  const parent = await mkdtemp(join(tmpdir(), 'vmh-'))
  t.after(() => rm(parent, { recursive: true }))
  const directory = join(parent, 'vmhostd/vm/web-1')
  await mkdir(directory, { recursive: true })
  await writeFile(join(parent, 'outside'), 'outside')
  await symlink(join(parent, 'outside'), join(directory, 'config.json'))
  await writeFile(join(directory, 'api.sock'), 'of the unit before')
  await makeRuntimeFiles(specOf({ name: 'config.json', content: '{}' }), parent)
  assert.deepEqual(await readdir(directory), ['config.json'])
  const [made, file] = await Promise.all([lstat(directory), lstat(join(directory, 'config.json'))])
  assert.deepEqual([made.mode & 0o7777, made.uid], [0o700, userId])
  assert.deepEqual([file.mode & 0o7777, file.uid, file.isFile()], [0o400, userId, true])
  assert.equal(await readFile(join(directory, 'config.json'), 'utf8'), '{}')
  assert.equal(await readFile(join(parent, 'outside'), 'utf8'), 'outside')
  assert.equal((await lstat(join(parent, 'vmhostd/vm'))).mode & 0o777, 0o755)
})

test('without files the directory is left to systemd', async (t) => {
  const parent = await mkdtemp(join(tmpdir(), 'vmh-'))
  t.after(() => rm(parent, { recursive: true }))
  await makeRuntimeFiles(specOf(), parent)
  assert.deepEqual(await readdir(parent), [])
})

test('a file elsewhere is a bug', async () => {
  for (const name of ['../config.json', '..'])
    await assert.rejects(makeRuntimeFiles(specOf({ name, content: '' }), tmpdir() + '/none'), {
      message: /a runtime file is in its directory/,
    })
})

test('a file is not made through a link that a user of a directory has put there', async (t) => {
  const parent = await mkdtemp(join(tmpdir(), 'vmh-'))
  t.after(() => rm(parent, { recursive: true }))
  const outside = join(parent, 'outside')
  for (const there of [true, false]) {
    if (there) await writeFile(outside, 'outside')
    const link = join(parent, `link-${there}`)
    await symlink(outside, link)
    await assert.rejects(makeRuntimeFile(link, 'new', userId), { code: 'EEXIST' })
    if (there) assert.equal((await lstat(outside)).uid, process.getuid?.())
    await rm(outside, { force: true })
  }
  assert.ok(!(await readdir(parent)).includes('outside'))
})

test('a file that has no room names its path', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'runtime-files-'))
  t.after(() => rm(directory, { recursive: true }))
  const handle = await open(directory)
  t.mock.method(Object.getPrototypeOf(handle), 'writeFile', async () => {
    throw new Error('ENOSPC: no space left on device, write')
  })
  await handle.close()
  const message = `writing ${directory}/vmhostd/vm/web-1/config.json`
  await assert.rejects(makeRuntimeFiles(specOf({ name: 'config.json', content: '{}' }), directory), {
    message,
  })
})
