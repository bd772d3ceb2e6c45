import assert from 'node:assert/strict'
import fs, {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../../config/config.ts'
import { filesOfHost, putFilesBack } from './kept-files.ts'
import type { TestContext } from 'node:test'

const OF_HOST = ['config.toml', 'ca.crt', 'server.crt', 'server.key', 'revoked.pem', 'nodes-revoked.pem']

/** A host with its configuration and the controller's files in a directory. */
function stage(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'kept-files-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const at = (name: string): string => join(directory, name)
  const text = `state_directory = "${at('state')}"
[controller]
ca_file = "${at('ca.crt')}"
certificate_file = "${at('server.crt')}"
key_file = "${at('server.key')}"
revocation_file = "${at('revoked.pem')}"
[coordination]
revocation_file = "${at('nodes-revoked.pem')}"
`
  const configPath = at('config.toml')
  writeFileSync(configPath, text)
  for (const name of [...OF_HOST.slice(1), 'ca.key', 'controller.key'])
    writeFileSync(at(name), name, { mode: name.endsWith('key') ? 0o600 : 0o644 })
  return { at, configPath, config: parseConfig(text, { path: configPath, hostname: 'host-1' }) }
}

test('the files of a host are those that its configuration names, without keys that can do more', (t) => {
  const { at, configPath, config } = stage(t)
  assert.deepEqual(
    filesOfHost(configPath, config).map(({ path }) => path),
    OF_HOST.map(at),
  )
})

test('a file is put back with its mode where none is, and never over another', (t) => {
  const { at, configPath, config } = stage(t)
  const files = filesOfHost(configPath, config)
  rmSync(at('server.key'))
  writeFileSync(at('ca.crt'), 'renewed')
  const dry = putFilesBack(files, { configPath, config, isDry: true })
  assert.ok(!existsSync(at('server.key')))
  assert.deepEqual(putFilesBack(files, { configPath, config, isDry: false }), dry)
  assert.deepEqual(
    dry.map(({ what }) => what),
    ['kept', 'differs', 'kept', 'made', 'kept', 'kept'],
  )
  assert.equal(readFileSync(at('ca.crt'), 'utf8'), 'renewed')
  assert.equal(statSync(at('server.key')).mode & 0o777, 0o600)
})

test('a file that could be written only in part is not there, and is made by the next try', (t) => {
  const { at, configPath, config } = stage(t)
  const files = filesOfHost(configPath, config)
  rmSync(at('server.key'))
  const write = fs.writeFileSync
  t.mock.method(fs, 'writeFileSync', (path: string, content: Buffer, options: object) => {
    write(path, content.subarray(0, 3), options)
    throw new Error('ENOSPC: no space left on device, write')
  })
  syncBuiltinESMExports()
  const failed = putFilesBack(files, { configPath, config, isDry: false })
  t.mock.restoreAll()
  syncBuiltinESMExports()
  assert.equal(failed.find(({ path }) => path === at('server.key'))?.what, 'failed')
  assert.deepEqual(
    readdirSync(at('.')).filter((name) => name.startsWith('server.key')),
    [],
  )
  putFilesBack(files, { configPath, config, isDry: false })
  assert.equal(readFileSync(at('server.key'), 'utf8'), 'server.key')
})

test('a file that the configuration does not name is not made', (t) => {
  const { at, configPath, config } = stage(t)
  const files = [{ path: at('cron'), mode: 0o644, content: Buffer.from('x') }]
  const made = putFilesBack(files, { configPath, config, isDry: false })
  assert.deepEqual([made[0]?.what, existsSync(at('cron'))], ['unnamed', false])
})
