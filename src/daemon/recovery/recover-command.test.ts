/** The command as a process of its own, on a host with an empty pool. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { markPool } from '../../host/pool/pool-marker.ts'
import { Store } from '../../store/store.ts'

const MAIN = new URL('../../main.ts', import.meta.url).pathname

test('what an interrupted run left does not count as the records of a host that has lost them', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'recover-command-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const at = (name: string): string => join(directory, name)
  writeFileSync(
    at('config.toml'),
    `state_directory = "${at('state')}"
[storage]
pool_directory = "${at('pool')}"
`,
  )
  mkdirSync(at('pool'))
  await markPool(at('pool'))
  mkdirSync(at('state/recover.new'), { recursive: true })
  const left = new Store(at('state/recover.new'), { first: 600_000, count: 100 })
  left.rememberPool('the-pool-of-then')
  left.close()
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--no-warnings', MAIN, 'recover', '--config', at('config.toml')],
    { encoding: 'utf8' },
  )
  assert.deepEqual([status, stdout, stderr], [0, 'every disk in the pool has a record\n', ''])
  assert.ok(!existsSync(at('state/recover.new')))
})
