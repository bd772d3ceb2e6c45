import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { markOfTests, worldOf } from '../../test/record.ts'
import { limits } from '../config/limits.ts'
import { Silences } from './remembered.ts'
import type { VmId } from '../core/ids.ts'

test('a monitor that answered until just now is waited for, and the state stands', async (t) => {
  const { host, id, vm, shown, create, idle, later, pokeAll } = await reconcileStage(t)
  create()
  await idle()
  await later(limits.stableAfterMs)
  const running = host.monitor.stateOf(id)
  host.monitor.become(id, { kind: 'silent' })
  pokeAll('guest changed')
  await idle()
  assert.deepEqual([shown(), vm().observed.partialFaults], ['running', undefined])
  await later(limits.monitorAnswerMs - 1)
  assert.equal(shown(), 'running')
  await later(limits.monitorRecheckMs)
  assert.equal(shown(), 'running monitor_unreachable')
  assert.match(vm().observed.fault?.message ?? '', /has not answered for 30 s$/)
  assert.equal(vm().observed.partialFaults?.[0]?.code, 'monitor_unreachable')
  host.monitor.become(id, running)
  await idle()
  assert.equal(shown(), 'running')
})

test('a guest that powers off has exited, and its monitor is not called unreachable', async (t) => {
  const { host, id, store, shown, create, idle, later } = await reconcileStage(t)
  create()
  await idle()
  await later(limits.stableAfterMs)
  const codes = new Set<string | undefined>()
  store.onVmChange(() => codes.add(store.vms.get(id)?.observed.fault?.code))
  // The process is about to end: its socket is closed, and systemd has not noticed yet.
  host.monitor.ended(id)
  await idle()
  host.fakeUnits.exit(id, 0)
  await idle()
  assert.equal(shown(), 'failed vm_exited')
  codes.delete(undefined)
  assert.deepEqual([...codes], ['vm_exited'])
})

test('a silence is counted from the first look without an answer, and from zero for each process', () => {
  const silences = new Silences()
  const id = 'web-1' as VmId
  const silent = { monitor: { known: true, value: { kind: 'silent' } } } as const
  const unit = (mainPid: number) =>
    ({ known: true, value: { kind: 'active', mainPid, startedAtMs: 0, mark: markOfTests } }) as const
  assert.equal(silences.note(id, worldOf({ ...silent, unit: unit(1) }), 5000), 0)
  assert.equal(silences.note(id, worldOf({ ...silent, unit: unit(1) }), 9000), 4000)
  const unknown = { known: false, code: 'systemd_unavailable', retry: 'backoff', message: '' } as const
  assert.equal(silences.note(id, worldOf({ ...silent, unit: unknown }), 9500), 0)
  assert.equal(silences.note(id, worldOf({ ...silent, unit: unit(1) }), 10_000), 5000)
  assert.equal(silences.note(id, worldOf({ ...silent, unit: unit(2) }), 11_000), 0)
  assert.equal(silences.note(id, worldOf({ unit: unit(2) }), 12_000), 0)
  assert.equal(silences.note(id, worldOf({ ...silent, unit: unit(2) }), 13_000), 0)
  assert.equal(silences.note(id, worldOf({ ...silent, unit: unit(2) }), 14_000), 1000)
  silences.forget(id)
  assert.equal(silences.note(id, worldOf({ ...silent, unit: unit(2) }), 15_000), 0)
})
