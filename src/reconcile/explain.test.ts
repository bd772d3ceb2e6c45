import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { sleepStage } from '../../test/sleep-stage.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { explain } from './explain-vm.ts'

test('the explanation of a VM holds no secret of a fault', async (t) => {
  const { host, id, create, idle, shown, looker } = await reconcileStage(t)
  const cause = new Error(
    'GET https://store.example/b/k?X-Amz-Signature=CANARY: Authorization: Bearer CANARYCANARY',
  )
  host.taps.failNext('ensure', new HostFault('network_failed', 'on purpose', { cause }))
  create()
  await idle()
  assert.equal(shown(), 'failed network_failed')
  const text = (await explain(looker(), id)) ?? ''
  assert.match(
    text,
    /^error {7}network\.ensure-tap: on purpose: GET https:\/\/store\.example\/b\/k\?\[redacted\]/m,
  )
  assert.doesNotMatch(text, /CANARY/)
  assert.match(text, /^ {2}network\.ensure-tap because /m)
})

test('the plan of a monitor that has been silent for long is the fault that the VM shows', async (t) => {
  const stage = await reconcileStage(t)
  const { host, id, create, idle, later, shown, pokeAll, looker } = stage
  create()
  await idle()
  await later(limits.stableAfterMs)
  host.monitor.become(id, { kind: 'silent' })
  pokeAll('guest changed')
  await idle()
  await later(limits.monitorAnswerMs)
  await later(limits.monitorRecheckMs)
  assert.equal(shown(), 'running monitor_unreachable')
  const text = await explain(looker(), id)
  assert.match(text ?? '', /^blocked at monitor\.inspect with monitor_unreachable/m)
})

test('while the host shuts down, the plan of a saved guest waits for the host, as its pass does', async (t) => {
  const stage = await sleepStage(t)
  await stage.endWithHost()
  stage.pokeAll('another look')
  await stage.idle()
  assert.equal(stage.vm().observed.waitingFor, 'the host to start again')
  const text = await explain(stage.looker(), stage.id)
  assert.match(text ?? '', /^wait for the host to start again, /m)
})
