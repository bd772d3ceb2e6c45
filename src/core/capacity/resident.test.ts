import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MIB } from '../../lib/byte-units.ts'
import { residentMemory } from './resident.ts'
import type { VmId } from '../ids.ts'
import type { MonitorKind } from '../monitor/monitor-kind.ts'

const vm = (id: string, monitor: MonitorKind = 'qemu', memoryMib = 512) => ({
  id: id as VmId,
  monitor,
  memoryMib,
})
const measured = (...parts: readonly [string, number, number][]) =>
  new Map(
    parts.map(([id, anonymousMib, fileMib]) => [
      id as VmId,
      { anonymousBytes: anonymousMib * MIB, fileBytes: fileMib * MIB },
    ]),
  )
const monitorMib = (): number => 100

test('what guests and monitors were promised and do not have is not resident', () => {
  const { residentMib, notResidentMib, each } = residentMemory(
    [vm('a'), vm('b')],
    measured(['a', 200, 0], ['b', 30.5, 0]),
    monitorMib,
  )
  assert.deepEqual([residentMib, notResidentMib], [200 + 31, 412 + 581])
  assert.deepEqual([...each], [...Object.entries({ a: 200, b: 31 })])
})

test('a VM that was not measured counts in neither figure', () => {
  const { residentMib, notResidentMib, each } = residentMemory(
    [vm('a'), vm('b')],
    measured(['a', 12, 0]),
    monitorMib,
  )
  assert.deepEqual([residentMib, notResidentMib, each.size], [12, 600, 1])
  assert.equal(residentMemory([], measured(['orphan', 12, 0]), monitorMib).residentMib, 0)
})

test('pages of files count for a monitor that maps the memory of a restored guest, and not for one that reads it', () => {
  const of = (monitor: MonitorKind) =>
    residentMemory([vm('a', monitor)], measured(['a', 50, 20]), monitorMib).residentMib
  assert.deepEqual([of('qemu'), of('firecracker')], [50, 70])
})

test('a VM that has more than it was promised does not hide what another has not', () => {
  const { notResidentMib } = residentMemory(
    [vm('a'), vm('b')],
    measured(['a', 700, 0], ['b', 112, 0]),
    monitorMib,
  )
  assert.equal(notResidentMib, 500)
})
