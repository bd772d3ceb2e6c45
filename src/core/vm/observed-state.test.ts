import assert from 'node:assert/strict'
import { test } from 'node:test'
import { markOfTests, recordOf, worldOf } from '../../../test/record.ts'
import { observedState } from './observed-state.ts'
import type { Plan } from '../plan/step.ts'
import type { MonitorState } from '../plan/world.ts'

const disk = { sizeMib: 64 }
const mending: Plan = { outcome: 'act', steps: [{ kind: 'network.ensure-tap', because: 'the link is down' }] }

const shown = (monitor: MonitorState): string => {
  const world = worldOf({
    unit: { known: true, value: { kind: 'active', mainPid: 1, mark: markOfTests, startedAtMs: 0 } },
    monitor: { known: true, value: monitor },
    storage: {
      known: true,
      value: { disk: { kind: 'present', ...disk }, seed: { kind: 'absent' }, missingImages: [] },
    },
  })
  return observedState(recordOf(), world, mending)
}

test('while its surroundings are mended a guest is shown as it is seen', () => {
  assert.equal(shown({ kind: 'running', disk }), 'running')
  assert.equal(shown({ kind: 'paused', disk }), 'paused')
})

test('a guest that stands still since its disk failed is not shown as running', () => {
  assert.equal(shown({ kind: 'stalled', status: 'io-error', disk }), 'paused')
})
