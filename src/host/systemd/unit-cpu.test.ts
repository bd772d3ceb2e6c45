import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { cpuTimeIn, parseCpuTime } from './unit-cpu.ts'
import type { VmId } from '../../core/ids.ts'

test('a group has the CPU time that the kernel counts for it, and others are left out', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'unit-cpu-'))
  t.after(() => rmSync(root, { recursive: true }))
  const group = (id: string, stat?: string): readonly [VmId, string] => {
    const path = join(root, id)
    mkdirSync(path)
    if (stat !== undefined) writeFileSync(join(path, 'cpu.stat'), stat)
    return [id as VmId, path]
  }
  const groups = [
    group('busy', 'usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n'),
    group('uncounted'),
    ['gone' as VmId, join(root, 'gone')] as const,
  ]
  assert.deepEqual([...(await cpuTimeIn(groups))], [['busy', 1_234_567]])
})

test('a file without the usage has no CPU time', () => {
  assert.equal(parseCpuTime('nr_periods 0\n'), undefined)
})
