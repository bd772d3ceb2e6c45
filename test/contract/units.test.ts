import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { FakeUnits } from '../fakes/fake-units.ts'
import { unitSpecOf } from '../fakes/unit-spec.ts'
import { unitsContract, web } from './units.contract.ts'

const MISSING = '/usr/bin/missing'

unitsContract('fake units', () => {
  const units = new FakeUnits()
  units.missingPrograms.add(MISSING)
  return {
    units,
    spec: (id) => unitSpecOf(id),
    missing: (spec) => ({ ...spec, command: [MISSING] }),
    exit: (id, status) => units.exit(id, status),
    leave: (id) => units.leave(id),
    lives: (pid) => units.lives(pid),
  }
})

test('fake units: a planned fault happens once, before or after the effect', async () => {
  const units = new FakeUnits()
  const fault = new HostFault('unit_start_failed', 'starting vmhost-web-1.service')
  const { signal } = new AbortController()
  units.failNext('ensureStarted', fault)
  await assert.rejects(units.ensureStarted(web, unitSpecOf(web), signal), fault)
  assert.equal((await units.inspect(web)).kind, 'absent')
  units.failNext('ensureStarted', fault, 'after')
  await assert.rejects(units.ensureStarted(web, unitSpecOf(web), signal), fault)
  assert.equal((await units.inspect(web)).kind, 'active')
})
