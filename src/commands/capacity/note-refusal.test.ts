import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage } from '../../../test/command-stage.ts'
import { limits } from '../../config/limits.ts'
import { noteRefusal } from './note-refusal.ts'
import type { TestContext } from 'node:test'
import type { Refusal } from '../context.ts'

function stage(t: TestContext) {
  const { context, store, id } = commandStage(t)
  const refuse = (code: Refusal['code'], nowMs: number): void =>
    noteRefusal({ ...context, now: () => nowMs }, id, { code, detail: 'why' } as Refusal)
  const codes = (): readonly unknown[] =>
    store.events
      .list({ after: 0, limit: 10, kind: 'admission_refused' })
      .map(({ atMs, body }) => [atMs, body.kind === 'admission_refused' && body.code])
  return { refuse, codes }
}

test('a refusal that is repeated is an event again only after a while', (t) => {
  const { refuse, codes } = stage(t)
  const [firstMs, everyMs] = [1_000_000, limits.refusalEventEveryMs]
  for (const laterMs of [0, 1, everyMs - 1, everyMs]) refuse('insufficient_capacity', firstMs + laterMs)
  assert.deepEqual(codes(), [
    [firstMs, 'insufficient_capacity'],
    [firstMs + everyMs, 'insufficient_capacity'],
  ])
})

test('another reason why the host has no room is another event', (t) => {
  const { refuse, codes } = stage(t)
  for (const code of ['insufficient_capacity', 'console_places_exhausted', 'user_ids_exhausted'] as const)
    refuse(code, 1000)
  refuse('conflict', 1000)
  assert.deepEqual(codes(), [
    [1000, 'insufficient_capacity'],
    [1000, 'console_places_exhausted'],
    [1000, 'user_ids_exhausted'],
  ])
})

test('a refusal is an event again when the clock was set back', (t) => {
  const { refuse, codes } = stage(t)
  for (const nowMs of [9_000_000, 1_000_000]) refuse('user_ids_exhausted', nowMs)
  assert.equal(codes().length, 2)
})
