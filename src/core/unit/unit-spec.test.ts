import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { VM_ID_PATTERN } from '../ids.ts'
import type { VmId } from '../ids.ts'
import { consoleName, parseConsoleName, parseUnitName, unitName } from './unit-spec.ts'

const vmIds = fc.stringMatching(new RegExp(VM_ID_PATTERN)).map((text) => text as VmId)

test('a unit and a console are named after their VM', () => {
  assert.equal(unitName('web-1' as VmId), 'vmhost-web-1.service')
  assert.equal(consoleName('web-1' as VmId), 'console-web-1')
})

test('the VM of a unit name and of a console name is read back exactly', () => {
  fc.assert(
    fc.property(vmIds, (id) => {
      assert.equal(parseUnitName(unitName(id)), id)
      assert.equal(parseConsoleName(consoleName(id)), id)
    }),
  )
})

test('a name that is not ours has no VM', () => {
  for (const name of [
    'vmhost-.service',
    'vmhost-.servicevmhost-',
    'vmhost.slice',
    'vmhost-Web.service',
    'vmhost-web-.service',
    'vmhost-a.b.service',
    'vmhost-a.service.service',
    'xvmhost-a.service',
    'vmhost-a.scope',
    `vmhost-${'a'.repeat(64)}.service`,
  ]) {
    assert.equal(parseUnitName(name), undefined, name)
  }
  for (const name of ['console-', 'console', 'console-A', 'stored', 'console-a:b']) {
    assert.equal(parseConsoleName(name), undefined, name)
  }
})

test('names that overlap themselves are distinguished', () => {
  assert.equal(parseUnitName('vmhost-vmhost-a.service'), 'vmhost-a')
  assert.equal(parseConsoleName('console-console-a'), 'console-a')
})
