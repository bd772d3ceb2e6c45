import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { explain } from './explain-vm.ts'
import { Silences } from './remembered.ts'

test('the explanation of a VM holds no secret of a fault', async (t) => {
  const { host, store, id, create, idle, shown, memory, graces } = await reconcileStage(t)
  const cause = new Error(
    'GET https://store.example/b/k?X-Amz-Signature=CANARY: Authorization: Bearer CANARYCANARY',
  )
  host.taps.failNext('ensure', new HostFault('network_failed', 'on purpose', { cause }))
  create()
  await idle()
  assert.equal(shown(), 'failed network_failed')
  const own = { silences: new Silences(), memory: memory(), graces: graces() }
  const text = (await explain({ store, host, ...own }, id)) ?? ''
  assert.match(
    text,
    /^error {7}network\.ensure-tap: on purpose: GET https:\/\/store\.example\/b\/k\?\[redacted\]/m,
  )
  assert.doesNotMatch(text, /CANARY/)
  assert.match(text, /^ {2}network\.ensure-tap because /m)
})

test('the plan of a monitor that has been silent for long is the fault that the VM shows', async (t) => {
  const stage = await reconcileStage(t)
  const { host, store, id, create, idle, later, shown, pokeAll, silences, memory, graces } = stage
  create()
  await idle()
  await later(limits.stableAfterMs)
  host.monitor.become(id, { kind: 'silent' })
  pokeAll('guest changed')
  await idle()
  await later(limits.monitorAnswerMs)
  await later(limits.monitorRecheckMs)
  assert.equal(shown(), 'running monitor_unreachable')
  const own = { silences: silences(), memory: memory(), graces: graces() }
  const text = await explain({ store, host, ...own }, id)
  assert.match(text ?? '', /^blocked at monitor\.inspect with monitor_unreachable/m)
})
