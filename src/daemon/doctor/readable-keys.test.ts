import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../../config/config.ts'
import { readableKeys } from './readable-keys.ts'

test('keys that every user can read are named, unless a directory above keeps users out', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'keys-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const at = (name: string): string => join(directory, name)
  chmodSync(directory, 0o755)
  for (const name of ['tls', 'kept', 'state', 'state/ssh']) mkdirSync(at(name), { mode: 0o755 })
  const { controller, coordination } = parseConfig('', { path: 'config.toml', hostname: 'host-1' })
  const found = () =>
    readableKeys({
      controller: { ...controller, keyFile: at('tls/server.key') },
      coordination: { ...coordination, keyFile: at('tls/node.key') },
      stateDirectory: at('state'),
    })
  assert.deepEqual(found(), [])
  const keys = [at('tls/server.key'), at('tls/node.key'), at('tls/ca.key'), at('state/ssh/id_ed25519')]
  const [server = '', node = '', authority = ''] = keys
  writeFileSync(at('kept/node.pem'), '', { mode: 0o644 })
  symlinkSync(at('kept/node.pem'), node)
  for (const key of keys.filter((one) => one !== node)) writeFileSync(key, '', { mode: 0o644 })
  writeFileSync(at('tls/server.crt'), '', { mode: 0o644 })
  assert.deepEqual(found(), keys)
  chmodSync(server, 0o640)
  chmodSync(at('state/ssh'), 0o700)
  assert.deepEqual(found(), [node, authority])
  chmodSync(at('kept'), 0o700)
  assert.deepEqual(found(), [authority])
  chmodSync(at('tls'), 0o750)
  assert.deepEqual(found(), [])
})
