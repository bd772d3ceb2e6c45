import assert from 'node:assert/strict'
import { test } from 'node:test'
import { markOfTests } from '../../../test/record.ts'
import { captureMoment } from './capture-moment.ts'
import type { MonitorState, UnitState } from '../world/world.ts'
import type { DesiredPower } from '../desired.ts'

const disk = { sizeMib: 64 }
const active: UnitState = { kind: 'active', mainPid: 42, startedAtMs: 1000, mark: markOfTests }

const units: readonly [UnitState, string][] = [
  [{ kind: 'absent' }, 'at_rest'],
  [{ kind: 'failed', result: 'exit-code', status: 1 }, 'at_rest'],
  [{ kind: 'activating', mainPid: 42, startedAtMs: 1000, mark: markOfTests }, 'not_now'],
  [{ kind: 'deactivating' }, 'not_now'],
  [{ kind: 'leftover', pids: [42] }, 'not_now'],
  [{ kind: 'foreign', because: 'it belongs to another' }, 'not_now'],
]

const guests: readonly [MonitorState | undefined, DesiredPower, string][] = [
  [{ kind: 'running', disk }, 'running', 'running'],
  [{ kind: 'running', disk }, 'paused', 'running'],
  [{ kind: 'running', disk }, 'stopped', 'not_now'],
  [{ kind: 'paused', disk }, 'paused', 'at_rest'],
  [{ kind: 'paused', disk }, 'running', 'not_now'],
  [{ kind: 'paused', disk }, 'stopped', 'not_now'],
  [{ kind: 'stalled', status: 'io-error', disk }, 'running', 'not_now'],
  [{ kind: 'broken', status: 'internal-error' }, 'running', 'not_now'],
  [{ kind: 'restoring' }, 'running', 'not_now'],
  [{ kind: 'silent' }, 'running', 'not_now'],
  [undefined, 'running', 'not_now'],
]

test('without a guest a disk can be captured, unless one comes, goes, or has left something', () => {
  for (const [unit, moment] of units) assert.equal(captureMoment(unit, undefined, 'running').kind, moment)
})

test('a disk can be captured of a guest that runs, or is paused as desired', () => {
  for (const [monitor, power, moment] of guests)
    assert.equal(captureMoment(active, monitor, power).kind, moment, `${monitor?.kind}, ${power}`)
})
