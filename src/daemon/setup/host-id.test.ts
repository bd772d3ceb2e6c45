import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { machine } from '../../../test/setup-machine.ts'
import { parseConfig } from '../../config/config.ts'

test('a host keeps the name that its certificates have, whatever the machine is called later', async (t) => {
  const { at, options, run } = machine(t)
  const idLater = async (more: readonly string[]): Promise<string> => {
    const path = at(more.length === 0 ? 'config.toml' : 'other.toml')
    await run([...options.with(options.indexOf('--config') + 1, path), ...more])
    return parseConfig(readFileSync(path, 'utf8'), { path, hostname: 'renamed' }).host.id
  }
  assert.equal(await idLater([]), 'host-1')
  assert.equal(await idLater(['--host-id', 'chosen']), 'chosen')
})

test('a host name that cannot be the id of a host is refused, with the option that names another one', async (t) => {
  const { at, options, run, certificate } = machine(t, 'my_host')
  const { status, text } = await run(options)
  assert.equal(status, 1)
  assert.match(text, /^vmhostd setup: the host name "my_host" cannot be .* must be 1 to 64 .* --host-id$/)
  assert.ok(!existsSync(at('config.toml')))
  assert.equal((await run([...options, '--host-id', 'my-host'])).status, 0)
  assert.ok(certificate('server').checkHost('my_host'))
})
