import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limits } from '../../src/config/limits.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import { create, settle } from './support/vms.ts'
import type { Generation, VmId } from '../../src/core/ids.ts'
import type { CtlStage } from './support/ctl-stage.ts'
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

test('a host whose records were removed says so, and what to do', async (t) => {
  const stage = await startCtlStage(t, pki)
  assert.doesNotMatch((await stage.run('sync')).out, /fault/)
  rmSync(join(stage.host.directory, 'vmhostd.db'))
  assert.match(
    (await stage.run('sync')).out,
    /\n +fault +writing to the state directory: vmhostd\.db was removed .* vmhostd doctor says what to do \(state_unwritable\)\n/,
  )
  const refused = await create(stage, 'web-1')
  assert.equal(refused.status, 1)
  assert.match(refused.err, /vmhostd\.db was removed or replaced while the daemon runs/)
})

/** Records that no guest is left, as the owner of the drain does. */
const emptied = ({ host: { store, clock } }: CtlStage): void => store.maintenance.noteEmpty(true, clock.now())

/** Records that the guest of a VM rests. */
const rests = ({ host: { store } }: CtlStage, id: string): void =>
  void store.vms.recordProgress(id as VmId, { observed: { state: 'sleeping', sinceMs: 1 }, nowMs: 1 })

test('a drain shows which guests are left, and ends when none is', async (t) => {
  const stage = await startCtlStage(t, pki)
  for (const id of ['web-1', 'web-2']) {
    await create(stage, id)
    settle(stage, id)
  }
  const running = stage.start('host drain --reason kernel --at-once 4')
  await eventually(() => running.printed().includes('draining: 2 guests are left\n'))
  const { drain } = stage.host.store.maintenance.get()
  assert.deepEqual(drain, { guests: 'sleep', graceSeconds: 60, atOnce: 4 })
  const { out } = await stage.run('host status')
  assert.match(out, /^draining since .*: kernel\n/)
  assert.match(out, /\nweb-2 +running +waits +-\n/)
  stage.host.store.vms.requestWake('web-2' as VmId, { reason: 'maintenance', atMs: 1 })
  await eventually(() => running.printed().includes('draining: 2 guests are left, now web-2\n'))
  rests(stage, 'web-2')
  await eventually(() => running.printed().includes('draining: 1 guest is left\n'))
  rests(stage, 'web-1')
  emptied(stage)
  assert.deepEqual(await running.result.then((ran) => [ran.status, ran.out]), [
    0,
    'drained: no guest is left\n',
  ])
  assert.match((await stage.run('events')).out, /host: draining → drained: kernel\n/)
})

test('a drain keeps the present reason, and looks once if it is asked to', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  settle(stage, 'web-1')
  await stage.run('host cordon --reason kernel')
  const { status, err } = await stage.run('host drain --guests stop --grace 2m --timeout 0')
  assert.equal(status, 3)
  assert.match(err, /host is not drained after 0 s; 1 guest is left/)
  const { drain, reason } = stage.host.store.maintenance.get()
  assert.deepEqual([drain, reason], [{ guests: 'stop', graceSeconds: 120, atOnce: 2 }, 'kernel'])
})

test('a drain whose time ends between two looks has timed out', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  settle(stage, 'web-1')
  // The time ends while the wait sleeps: polls come every `clientPollMs`.
  const endMs = limits.clientPollMs * 1.5
  const shell = {
    sleep: (ms: number, signal: AbortSignal) => sleep(ms === 1000 ? endMs : ms, undefined, { signal }),
  }
  const { status, err } = await stage.run('host drain --timeout 1s', { shell })
  assert.equal(status, 3, err)
  assert.match(err, /host is not drained after 1 s; 1 guest is left/)
})

test('with --fail-on-error an error from before the drain does not end it, and another one does', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  settle(stage, 'web-1')
  const finds = (message: string): void => {
    const partialFaults = [{ code: 'firewall_failed', step: 'network.inspect', message }] as const
    const observed = { state: 'running', sinceMs: 1, partialFaults } as const
    stage.host.store.vms.recordProgress('web-1' as VmId, { observed, nowMs: 1 })
  }
  finds('nft does not answer')
  const running = stage.start('host drain --fail-on-error')
  await eventually(() => running.printed().includes('web-1: network.inspect: nft does not answer\n'))
  finds('nft is not there')
  const { status, err } = await running.result
  assert.equal(status, 1)
  assert.match(err, /vmhostctl: web-1: network.inspect: nft is not there\n/)
})

test('with --fail-on-error the same failure as before the drain ends it when it happens again', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  settle(stage, 'web-1')
  const fails = (attempt: number): void => {
    const fault = {
      code: 'save_failed',
      step: 'monitor.ensure-saved',
      message: 'no space left on device',
      generation: 1 as Generation,
      sinceMs: 1,
      attempt,
      nextAttemptAtMs: 2,
    } as const
    const observed = { state: 'running', sinceMs: 1, fault } as const
    stage.host.store.vms.recordProgress('web-1' as VmId, { observed, nowMs: 1 })
  }
  fails(1)
  const running = stage.start('host drain --fail-on-error')
  await eventually(() => running.printed().includes('web-1: monitor.ensure-saved: no space left on device\n'))
  fails(2)
  const { status, err } = await running.result
  assert.equal(status, 1)
  assert.match(err, /vmhostctl: web-1: monitor.ensure-saved: no space left on device\n/)
})

test('a drain ends when somebody puts the host back', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  settle(stage, 'web-1')
  const running = stage.start('host drain')
  await eventually(() => running.printed().includes('1 guest is left'))
  await stage.run('host uncordon')
  const { status, err } = await running.result
  assert.equal(status, 1)
  assert.match(err, /the host is schedulable again, by another request/)
})

test('what a drain cannot mean is refused', async (t) => {
  const stage = await startCtlStage(t, pki)
  for (const line of ['--grace 10s', '--at-once 0', '--at-once 1000', '--guests pause'])
    assert.equal((await stage.run(`host drain ${line}`)).status, 2, line)
  assert.equal(stage.host.store.maintenance.get().state, 'schedulable')
})
