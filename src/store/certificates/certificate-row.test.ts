import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreStage } from '../../../test/store-stage.ts'
import { DAY_MS } from '../../lib/time-units.ts'

const server = (notAfterMs: number) => ({
  certificates: [{ certificate: 'server', notAfterMs }],
  lists: new Map(),
})

test('an event of a certificate is not repeated by a restart, and what was replaced meanwhile is one', (t) => {
  const stage = new StoreStage(t)
  const note = (notAfterMs: number): void => stage.store.certificates.note(server(notAfterMs), 1000)
  const kinds = (): string[] => stage.store.events.list({ after: 0, limit: 9 }).map(({ body }) => body.kind)
  note(DAY_MS)
  note(DAY_MS)
  stage.reopen()
  note(DAY_MS)
  assert.deepEqual(kinds(), ['certificate_ends_soon'])
  stage.reopen()
  note(400 * DAY_MS)
  assert.deepEqual(kinds(), ['certificate_ends_soon', 'certificate_replaced'])
})

test('what is rolled back is noted again', (t) => {
  const { store } = new StoreStage(t)
  store.rehearse(() => store.certificates.note(server(DAY_MS), 1000))
  assert.deepEqual(store.events.list({ after: 0, limit: 9 }), [])
  store.certificates.note(server(DAY_MS), 1000)
  assert.equal(store.events.list({ after: 0, limit: 9 }).length, 1)
})
