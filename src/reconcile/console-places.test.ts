import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setPower } from '../commands/vm/set-power.ts'
import { sleepStage } from '../../test/sleep-stage.ts'
import type { VmId } from '../core/ids.ts'

const other = 'web-2' as VmId

test('a VM that sleeps leaves its place to others, and its console session goes on', async (t) => {
  const { host, id, fallAsleep, receive, idle, shown } = await sleepStage(t)
  const session = host.consoles.session(id)
  await fallAsleep()
  assert.deepEqual(await host.consoles.inspect(id), { kind: 'detached' })
  assert.deepEqual(await host.consoles.stored(), [])
  receive('packet')
  await idle()
  assert.equal(shown(), 'running')
  assert.equal(host.consoles.session(id), session)
  assert.equal((await host.consoles.inspect(id)).kind, 'stored')
})

test('a wake that finds no place waits for one, says so, and goes on as soon as one is free', async (t) => {
  const { host, context, store, vm, createAnother, fallAsleep, receive, given, idle, shown, goesOn } =
    await sleepStage(t)
  host.consoles.limit(1)
  await fallAsleep()
  createAnother(2)
  await idle()
  assert.equal(store.vms.get(other)?.observed.state, 'running')
  receive('packet')
  await idle()
  assert.equal(shown(), 'failed no_console_place')
  assert.match(vm().observed.fault?.message ?? '', /console-web-1/)
  setPower(context, other, 'stopped')
  await idle()
  // A separate pass takes the place that the other VM gave up.
  await idle()
  assert.equal(shown(), 'running')
  assert.equal(vm().observed.fault, undefined)
  assert.ok(goesOn(), 'the guest was booted')
  assert.deepEqual(given(), ['packet'])
})

test('a stopped VM keeps what its console said until its next start', async (t) => {
  const { host, context, id, idle } = await sleepStage(t)
  host.consoles.say(id, 'panic')
  setPower(context, id, 'stopped')
  await idle()
  const last = (): string =>
    Buffer.from(host.consoles.lastSession(id)?.output.since(0).bytes ?? []).toString()
  assert.equal(last(), 'panic')
  setPower(context, id, 'running')
  await idle()
  assert.equal(last(), '')
})
