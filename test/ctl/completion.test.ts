import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { before, test } from 'node:test'
import { text } from 'node:stream/consumers'
import { makePki, SHA } from '../daemon/support/controller-host.ts'
import { createVm, start, startBody } from '../daemon/support/snapshots.ts'
import { ctl, startCtlStage } from './support/ctl-stage.ts'
import type { TestContext } from 'node:test'
import type { Shell } from '../../src/ctl/shell.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** Returns the candidates for the last of these words, without their help. */
async function candidates(words: readonly string[], shell: Partial<Shell> = {}): Promise<string[]> {
  const { status, out, err } = await ctl(['__complete', ...words], { shell })
  assert.equal(status, 0)
  assert.equal(err, '')
  return out
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split('\t', 1)[0] ?? '')
}

test('commands, options and values are completed from the words before them', async () => {
  assert.deepEqual(await candidates(['']), [
    'vm',
    'console',
    'snapshot',
    'image',
    'sync',
    'host',
    'events',
    'completion',
    'version',
  ])
  assert.deepEqual(await candidates(['sy']), ['sync'])
  assert.deepEqual(await candidates(['vm', 'st']), ['start', 'stop'])
  assert.deepEqual(await candidates(['vm', 'ls', '--']), [
    '--label',
    '--state',
    '--wide',
    '--help',
    '--profile',
    '--json',
  ])
  assert.deepEqual(await candidates(['vm', 'ls', '--state', 'pa']), ['pausing', 'paused'])
  assert.deepEqual(await candidates(['vm', 'ls', '--state', '=', 'pa']), ['pausing', 'paused'])
  assert.deepEqual(await candidates(['vm', 'ls', '--state=pa']), ['--state=pausing', '--state=paused'])
  assert.deepEqual(await candidates(['completion', '']), ['bash', 'zsh', 'fish'])
  assert.deepEqual(await candidates(['vm', 'create', 'web-1', '--rootfs', '']), [':files'])
  assert.deepEqual(await candidates(['vm', 'ls', '--profile', '']), [':files'])
  assert.deepEqual(await candidates(['vm', 'set', 'web-1', '--protected', '']), ['yes', 'no'])
  assert.deepEqual(await candidates(['--json', 'vm', 'st']), ['start', 'stop'])
  assert.deepEqual(await candidates(['vm', 'create', '']), [])
  assert.deepEqual(await candidates(['nonsense', '']), [])
})

test('the names of VMs come from the daemon, without those already given', async (t) => {
  const stage = await startCtlStage(t, pki)
  const images = `--rootfs https://i.example/root#sha256=${SHA} --kernel https://i.example/k#sha256=${SHA}`
  for (const id of ['web-1', 'web-2']) await stage.run(`vm create ${id} ${images}`)
  const shell = { environment: { VMHOSTCTL_PROFILE: stage.profile } }
  assert.deepEqual(await candidates(['vm', 'get', ''], shell), ['web-1', 'web-2'])
  assert.deepEqual(await candidates(['vm', 'stop', 'web-1', ''], shell), ['web-2'])
  assert.deepEqual(await candidates(['vm', 'get', 'web-1', ''], shell), [])
  assert.deepEqual(await candidates(['vm', 'wait', '--profile', stage.profile, 'web-2', 'w']), ['web-1'])
})

test('the names of snapshots come from the daemon too', async (t) => {
  const stage = await startCtlStage(t, pki)
  await createVm(stage.host)
  for (const id of ['nightly-1', 'nightly-2']) await start(stage.host, startBody(), id)
  const shell = { environment: { VMHOSTCTL_PROFILE: stage.profile } }
  assert.deepEqual(await candidates(['snapshot', 'rm', 'nightly-1', ''], shell), ['nightly-2'])
  assert.deepEqual(await candidates(['snapshot', 'ls', '--vm', ''], shell), ['web-1'])
  assert.deepEqual(await candidates(['snapshot', 'ls', '--status', 'p'], shell), ['pending'])
  assert.deepEqual(await candidates(['snapshot', 'create', 'x', '--upload', ''], shell), [':files'])
})

test('without a daemon there are no names and no error message', async () => {
  assert.deepEqual(await candidates(['vm', 'get', '']), [])
})

const NO_BASH = spawnSync('bash', ['--version']).status === 0 ? false : 'bash is not installed here'

test('the script for bash has valid syntax', { skip: NO_BASH }, async (t) => {
  const { out } = await ctl(['completion', 'bash'])
  const { status, stderr } = spawnSync('bash', ['-n', scriptFile(t, out)], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
})

function scriptFile(t: TestContext, script: string): string {
  const directory = mkdtempSync(join(tmpdir(), 'completion-'))
  t.after(() => rmSync(directory, { recursive: true }))
  writeFileSync(join(directory, 'script'), script)
  return join(directory, 'script')
}

test(
  'bash completes words, values after an equals sign, files, and names from the daemon',
  { skip: NO_BASH },
  async (t) => {
    const stage = await startCtlStage(t, pki)
    const images = `--rootfs https://i.example/root#sha256=${SHA} --kernel https://i.example/k#sha256=${SHA}`
    await stage.run(`vm create web-1 ${images}`)
    const script = scriptFile(t, (await ctl(['completion', 'bash'])).out)
    const main = resolve(import.meta.dirname, '../../src/ctl-main.ts')
    const ask = async (...words: string[]): Promise<string[]> => {
      const line = [
        `vmhostctl() { "${process.execPath}" "${main}" "$@"; }`,
        `source "${script}"`,
        `COMP_WORDS=(vmhostctl ${words.map((word) => `'${word}'`).join(' ')})`,
        `COMP_CWORD=${words.length}`,
        '_vmhostctl',
        String.raw`printf '%s\n' "\${COMPREPLY[@]}"`.replace('\\$', '$'),
      ].join('\n')
      const env = { ...process.env, VMHOSTCTL_PROFILE: stage.profile }
      const child = spawn('bash', ['--norc', '-c', line], { env, stdio: ['ignore', 'pipe', 'inherit'] })
      return (await text(child.stdout)).split('\n').filter(Boolean)
    }
    assert.deepEqual(await ask('vm', 'st'), ['start', 'stop'])
    assert.deepEqual(await ask('vm', 'ls', '--state', '=', 'pa'), ['pausing', 'paused'])
    assert.deepEqual(await ask('vm', 'get', ''), ['web-1'])
    assert.deepEqual(await ask('vm', 'create', 'x', '--file', script), [script])
  },
)
