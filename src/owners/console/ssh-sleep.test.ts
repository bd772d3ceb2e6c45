import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleepStage } from '../../../test/sleep-stage.ts'
import { FakeGuestShells } from '../../../test/fakes/fake-guest-shells.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { wakeVm } from '../../commands/vm/wake-vm.ts'
import { silentLog } from '../../log/log.ts'
import { SshSessions } from './ssh-sessions.ts'
import type { TestContext } from 'node:test'
import type { SessionEnd } from './ssh-session.ts'

const never = new AbortController().signal

/** Opens shells in a guest whose VM is reconciled on a host in memory. */
async function stageOn(t: TestContext) {
  const stage = await sleepStage(t)
  const { store, clock, context, vm } = stage
  const shells = new FakeGuestShells()
  shells.guest('192.0.2.10')
  const sessions = new SshSessions({
    shells,
    store,
    clock,
    wake: (id) => wakeVm(context, id, 'console'),
    log: silentLog,
  })
  const window = { cols: 80, rows: 24 }
  const open = () => sessions.open({ record: vm(), user: 'root', window, of: 'controller' }, never)
  return { ...stage, open }
}

test('a shell wakes the VM, which shows the shell as the reason', async (t) => {
  const { vm, open, goesOn, fallAsleep } = await stageOn(t)
  await fallAsleep()
  const opened = await open()
  assert.ok(opened.ok)
  assert.ok(goesOn())
  assert.equal(vm().observed.lastWake?.reason, 'console')
  opened.value.close()
})

test('a shell goes on over a sleep, and ends with the stop of the VM', async (t) => {
  const { context, id, idle, open, shown, receive, fallAsleep } = await stageOn(t)
  const opened = await open()
  assert.ok(opened.ok)
  const ends: SessionEnd[] = []
  opened.value.attach({ onOutput: () => {}, onEnd: (end) => ends.push(end) })
  await fallAsleep()
  receive('a keystroke')
  await idle()
  assert.deepEqual([shown(), ends], ['running', []])
  setPower(context, id, 'stopped')
  await idle()
  assert.deepEqual(ends, [{ kind: 'vm_stopped' }])
})

test('a guest with damaged memory gets no shell and no boot', async (t) => {
  const { host, id, open, shown, fallAsleep } = await stageOn(t)
  await fallAsleep()
  host.savedFiles.damage(host.savedStates.paths(id).published)
  const opened = await open()
  assert.deepEqual(opened.ok ? 'a shell' : opened.error, { kind: 'vm_not_running', state: 'failed' })
  assert.equal(shown(), 'failed saved_state_corrupt')
})
