/** The command as a process of its own, on a host that never had a pool, or has lost it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { markPool } from '../../host/pool/pool-marker.ts'
import { Store } from '../../store/store.ts'
import type { TestContext } from 'node:test'

const MAIN = new URL('../../main.ts', import.meta.url).pathname

/** Makes a host with records and the controller's files in a directory, and a backup of it. */
function stage(t: TestContext, poolId?: string) {
  const directory = mkdtempSync(join(tmpdir(), 'restore-command-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const at = (name: string): string => join(directory, name)
  writeFileSync(
    at('config.toml'),
    `state_directory = "${at('state')}"
[storage]
pool_directory = "${at('pool')}"
[controller]
ca_file = "${at('ca.crt')}"
certificate_file = "${at('tls/server.crt')}"
key_file = "${at('tls/server.key')}"
`,
  )
  mkdirSync(at('tls'))
  for (const name of ['ca.crt', 'tls/server.crt', 'tls/server.key']) writeFileSync(at(name), name)
  mkdirSync(at('state'))
  const store = new Store(at('state'), { first: 600_000, count: 100 })
  if (poolId !== undefined) store.rememberPool(poolId)
  store.close()
  const run = (...args: readonly string[]) =>
    spawnSync(process.execPath, ['--no-warnings', MAIN, ...args, '--config', at('config.toml')], {
      encoding: 'utf8',
    })
  assert.equal(run('backup', at('host.backup')).status, 0)
  return { at, run, restore: (...args: readonly string[]) => run('restore', at('host.backup'), ...args) }
}

test('records and files are put back, and the command says how to go on', (t) => {
  const { at, restore } = stage(t)
  rmSync(at('tls'), { recursive: true })
  const { status, stdout, stderr } = restore()
  assert.deepEqual([status, stderr], [0, ''])
  assert.match(stdout, /The records are put back\. The previous ones are in \S+before-restore\S+\.db\./)
  assert.match(stdout, /server\.key +put back\n[^]*Next: systemctl start vmhostd\n$/)
  assert.equal(readFileSync(at('tls/server.key'), 'utf8'), 'tls/server.key')
})

test('a file that cannot be put back is a line and a failure, once the records and the other files are put back', (t) => {
  const { at, restore } = stage(t)
  rmSync(at('tls'), { recursive: true })
  writeFileSync(at('tls'), 'not a directory')
  rmSync(at('ca.crt'))
  const { status, stdout, stderr } = restore()
  assert.equal(status, 1, stderr)
  assert.match(
    stdout,
    /The records are put back\. The previous ones are in \S+\.db\.\n[^]*server\.key +is NOT put back: E[^]*\n/,
  )
  assert.match(stdout, /server\.crt +is NOT put back: /)
  assert.ok(existsSync(at('ca.crt')))
  assert.doesNotMatch(stdout, /systemctl start/)
  assert.match(stdout, /\nNext: see why 2 files are not put back, and run this again .*\n$/)
})

test('the state of the host is that of now, and the command says it before it puts anything back', (t) => {
  const { at, restore } = stage(t)
  const change = (use: (store: Store) => void): void => {
    const store = new Store(at('state'), { first: 600_000, count: 100 })
    use(store)
    store.close()
  }
  const drain = { guests: 'sleep', graceSeconds: 30, atOnce: 4 } as const
  change(({ maintenance }) => maintenance.set({ state: 'drained', drain }, 1))
  const said =
    /\n  the host is drained, as it is now\. No guest starts or wakes until vmhostctl host uncordon\n/
  assert.match(restore('--dry-run').stdout, said)
  assert.match(restore().stdout, said)
  change(({ maintenance }) => assert.equal(maintenance.get().state, 'drained'))
  writeFileSync(at('state/vmhostd.db'), 'not a database')
  assert.match(
    restore('--dry-run').stdout,
    /\n  the host is schedulable, as in the file, because the present records do not say it\n/,
  )
})

test('a dry run changes nothing', (t) => {
  const { at, restore } = stage(t)
  rmSync(at('tls'), { recursive: true })
  const { status, stdout } = restore('--dry-run')
  assert.equal(status, 0)
  assert.match(stdout, /server\.key +would be put back\n[^]*Dry run: nothing was changed\.\n$/)
  assert.doesNotMatch(stdout, /records are put back/)
  assert.ok(!existsSync(at('tls')))
})

test('a directory is not a backup, and the error says so', (t) => {
  const { at, run } = stage(t)
  const { status, stderr } = run('restore', at('state'))
  assert.equal(status, 1)
  assert.match(stderr, /^vmhostd restore: \S+state is not a file: name a backup\n$/)
})

test('a failure before the records are put back says where nothing is put back', (t) => {
  const { at, restore } = stage(t)
  const daemon = new Store(at('state'), { first: 600_000, count: 100 })
  t.after(() => daemon.close())
  const { status, stderr } = restore()
  assert.equal(status, 1)
  assert.match(stderr, /^vmhostd restore: nothing is put back in \S+state: another vmhostd works on /)
  assert.doesNotMatch(restore('--dry-run').stderr, /put back/)
})

test('a pool that is not the one of the records is named, with the way out', async (t) => {
  const { at, restore } = stage(t, 'pool-1')
  const words =
    /^vmhostd restore: nothing is put back in \S+state: \S+pool is not the pool of these records, pool-1, or not whole: mount that one there; if it is lost for good, add --pool-lost: /
  assert.match(restore().stderr, words)
  assert.match(restore('--dry-run').stderr, /^vmhostd restore: \S+pool is not the pool of these records/)
  const { poolId } = await markPool(at('pool'))
  assert.match(restore().stderr, new RegExp(`${words.source}.*the pool there is ${poolId}`))
})

test('a pool that is there is not lost, whatever the option says', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'restore-command-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const { poolId } = await markPool(join(directory, 'pool'))
  const { at, restore } = stage(t, poolId)
  renameSync(join(directory, 'pool'), at('pool'))
  const { status, stderr } = restore('--pool-lost')
  assert.equal(status, 1)
  assert.match(stderr, /\S+pool is the pool of these records, so it is not lost: leave out --pool-lost\n$/)
})

test('on a host that lost its pool, the command says how to begin another one', (t) => {
  const { at, restore } = stage(t)
  rmSync(at('state'), { recursive: true })
  const { status, stdout } = restore('--pool-lost')
  assert.equal(status, 0)
  assert.match(stdout, /\nNext: vmhostd setup --replace-pool, then systemctl start vmhostd\n$/)
})
