import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { makePki } from '../daemon/support/controller-host.ts'
import { createVm, startConsole } from '../daemon/support/console-viewer.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

test('the console of a VM is shown as text, whole or its last lines, and a silent one shows nothing', async (t) => {
  const stage = await startCtlStage(t, pki)
  await createVm(stage.host)
  const none = await stage.run('vm log web-1')
  assert.equal(none.status, 1)
  assert.match(none.err, /vmhostctl vm start web-1, then run the command again/)
  const session = await startConsole(stage.host)
  assert.deepEqual(JSON.parse((await stage.run('vm log web-1 --json')).out), { id: 'web-1', lines: [] })
  session.say(Buffer.from('one\r\n\u001b[31mtwo\u001b[0m\r\nthree'))
  assert.equal((await stage.run('vm log web-1')).out, 'one\ntwo\nthree\n')
  assert.equal((await stage.run('vm log web-1 --lines 1')).out, 'three\n')
  assert.equal((await stage.run('vm log web-1 --lines 0')).status, 2)
  assert.equal((await stage.run('vm log nope')).status, 1)
})

test('the counters of a VM are shown with the moment from which each counts', async (t) => {
  const stage = await startCtlStage(t, pki)
  await createVm(stage.host)
  const { status, out } = await stage.run('vm counters web-1')
  assert.equal(status, 0)
  assert.match(out, /^ {2}wakes +0, since \d{4}-.*Z\n {2}restarts +0, since \d{4}-.*Z$/m)
})
