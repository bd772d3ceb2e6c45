import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { makePki } from '../daemon/support/controller-host.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import { create } from './support/vms.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

test('a host is cordoned with a reason, says so, and is put back', async (t) => {
  const stage = await startCtlStage(t, pki)
  assert.deepEqual(await stage.run('host status'), { status: 0, out: 'schedulable\n', err: '' })
  const { status, out } = await stage.run('host cordon --reason kernel')
  assert.equal(status, 0)
  assert.match(out, /^cordoned since \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ: kernel\n$/)
  assert.equal((await stage.run('host status')).out, out)
  assert.match((await stage.run('sync')).out, /maintenance +cordoned since .*: kernel\n/)
  assert.equal(JSON.parse((await stage.run('host status --json')).out).state, 'cordoned')
  const refused = await create(stage, 'web-1')
  assert.equal(refused.status, 1)
  assert.match(refused.err, /this host is cordoned \(kernel\), and takes no VM: place web-1 on another host/)
  assert.match(refused.err, /vmhostctl host uncordon ends it/)
  assert.match((await stage.run('events')).out, /host: schedulable → cordoned: kernel\n/)
  assert.match((await stage.run('host uncordon')).out, /^schedulable since /)
  assert.equal((await create(stage, 'web-1')).status, 0)
  assert.doesNotMatch((await stage.run('sync')).out, /maintenance/)
})
