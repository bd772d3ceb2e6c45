/** The program as a process of its own. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { resolve } from 'node:path'
import { before, test } from 'node:test'
import { text } from 'node:stream/consumers'
import { ReadStream } from 'node:tty'
import { openMaster, openSlave, slavePath } from '../../src/host/pty/open-pty.ts'
import { makePki, SHA } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import { create } from './support/vms.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

const MAIN = resolve(import.meta.dirname, '../../src/ctl-main.ts')

let pki: Pki
before(async () => {
  pki = await makePki()
})

const start = (...argv: string[]) =>
  spawn(process.execPath, [MAIN, ...argv], { stdio: ['pipe', 'pipe', 'pipe'] })

test('the program ends by itself with its status, and keeps no connection open', async (t) => {
  const { profile } = await startCtlStage(t, pki)
  const child = start('vm', 'ls', '--profile', profile)
  const [[code], out] = await Promise.all([once(child, 'exit'), text(child.stdout)])
  assert.equal(code, 0)
  assert.match(out, /^no VMs/)
  const refused = start('vm', 'get', 'web-9', '--profile', profile)
  const [[status], err] = await Promise.all([once(refused, 'exit'), text(refused.stderr)])
  assert.equal(status, 1)
  assert.match(err, /^vmhostctl: there is no VM web-9/)
})

test('standard input may be the request', async (t) => {
  const { profile, host } = await startCtlStage(t, pki)
  const image = { url: 'https://i.example/x', sha256: SHA }
  const child = start('vm', 'create', 'web-1', '--file', '-', '--profile', profile)
  child.stdin.end(
    JSON.stringify({
      power: 'running',
      compute: { cpu_millicores: 1000, memory_mib: 512, sleep_after_idle_seconds: 0 },
      disk: { size_mib: 64 },
      image: { rootfs: image, kernel: image },
    }),
  )
  assert.deepEqual(await once(child, 'exit'), [0, null])
  assert.equal(host.store.vms.ids().length, 1)
})

test('on a terminal that does not know its size, as a serial line, a table has 80 columns', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1', '--ipv4 192.0.2.10')
  const master = openMaster()
  const slave = openSlave(slavePath(master))
  const screen = new ReadStream(master)
  t.after(() => {
    screen.destroy()
    closeSync(slave)
  })
  let shown = ''
  screen.on('data', (chunk) => (shown += String(chunk)))
  const argv = [MAIN, 'vm', 'ls', '--profile', stage.profile]
  const child = spawn(process.execPath, argv, { stdio: ['ignore', slave, 'pipe'] })
  assert.deepEqual(await once(child, 'exit'), [0, null])
  await eventually(() => shown.includes('web-1'))
  assert.match(shown, /192\.0\.2\.10/)
})

test('a reader that closes the output early is not a failure', async () => {
  const child = start('--help')
  child.stdout.destroy()
  const [code] = await once(child, 'exit')
  assert.equal(code, 0)
})

test('a failure keeps its status when its output has lost its reader', async (t) => {
  const { profile } = await startCtlStage(t, pki)
  for (const gone of [['stderr'], ['stdout', 'stderr']] as const) {
    const child = start('vm', 'get', 'web-9', '--profile', profile)
    for (const name of gone) child[name].destroy()
    assert.deepEqual(await once(child, 'exit'), [1, null], gone.join(' '))
  }
  const misused = start('vm', 'fly')
  misused.stderr.destroy()
  assert.deepEqual(await once(misused, 'exit'), [2, null])
})

test('a command does all that it has to do when its output has lost its reader', async (t) => {
  const stage = await startCtlStage(t, pki)
  const images = `--rootfs https://i.example/root#sha256=${SHA} --kernel https://i.example/k#sha256=${SHA}`
  for (const id of ['web-1', 'web-2']) await stage.run(`vm create ${id} ${images}`)
  const child = start('vm', 'stop', 'web-1', 'web-9', 'web-2', '--profile', stage.profile)
  child.stdout.destroy()
  child.stderr.destroy()
  assert.deepEqual(await once(child, 'exit'), [1, null])
  const { out } = await stage.run('vm ls --json')
  const { items } = JSON.parse(out) as { items: readonly { desired: { power: string } }[] }
  assert.deepEqual(
    items.map(({ desired }) => desired.power),
    ['stopped', 'stopped'],
  )
})

test('a command that prints without end ends with its reader', { timeout: 20_000 }, async (t) => {
  const stage = await startCtlStage(t, pki)
  const child = start('events', '--follow', '--after', '0', '--profile', stage.profile)
  child.stdout.destroy()
  assert.deepEqual(await once(child, 'exit'), [0, null])
})

test('an error while writing output is reported in a line, and is a failure', async () => {
  const full = openSync('/dev/full', 'w')
  const child = spawn(process.execPath, [MAIN, '--help'], { stdio: ['ignore', full, 'pipe'] })
  closeSync(full)
  const { stderr } = child
  assert.ok(stderr !== null)
  const [[code], err] = await Promise.all([once(child, 'exit'), text(stderr)])
  assert.equal(code, 1)
  assert.match(err, /^vmhostctl: its output cannot be written: ENOSPC.*\n$/)
})

test('an interrupt ends a wait at once', async (t) => {
  const stage = await startCtlStage(t, pki)
  const images = `--rootfs https://i.example/root#sha256=${SHA} --kernel https://i.example/k#sha256=${SHA}`
  await stage.run(`vm create web-1 ${images}`)
  const child = start('vm', 'wait', 'web-1', '--profile', stage.profile)
  await eventually(() => stage.host.waits.size === 1)
  child.kill('SIGINT')
  const [end, err] = await Promise.all([once(child, 'exit'), text(child.stderr)])
  assert.deepEqual(end, [null, 'SIGINT'])
  assert.match(err, /\nvmhostctl: the daemon continues: vmhostctl vm wait web-1 waits again.*\n$/)
})
