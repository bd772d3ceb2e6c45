import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { HostFault } from '../core/errors.ts'
import { silentLog } from '../log/log.ts'
import { explain } from './explain.ts'

test('what is explained of a VM holds no secret of a fault', async (t) => {
  const { host, store, id, create, idle, shown } = await reconcileStage(t)
  const cause = new Error(
    'GET https://store.example/b/k?X-Amz-Signature=CANARY: Authorization: Bearer CANARYCANARY',
  )
  host.taps.failNext('ensure', new HostFault('network_failed', 'on purpose', { cause }))
  create()
  await idle()
  assert.equal(shown(), 'failed network_failed')
  const text = (await explain({ store, host, log: silentLog }, id)) ?? ''
  assert.match(
    text,
    /^error {7}network\.ensure-tap: on purpose: GET https:\/\/store\.example\/b\/k\?\[redacted\]/m,
  )
  assert.doesNotMatch(text, /CANARY/)
  assert.match(text, /^ {2}network\.ensure-tap because /m)
})
