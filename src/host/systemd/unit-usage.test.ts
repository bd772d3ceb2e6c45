import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { parseResident, residentIn, cpuTimeIn, parseCpuTime } from './unit-usage.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'

const statusOf = (anonKib: number, fileKib: number, sharedKib: number): string =>
  `Name:\tqemu\nVmRSS:\t    9999 kB\nRssAnon:\t    ${anonKib} kB\nRssFile:\t    ${fileKib} kB\nRssShmem:\t    ${sharedKib} kB\nThreads:\t3\n`

/** Makes a tree of control groups beside a tree of processes. */
function stage(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'unit-memory-'))
  t.after(() => rmSync(root, { recursive: true }))
  const write = (folder: string, name: string, content: string): string => {
    mkdirSync(join(root, folder), { recursive: true })
    writeFileSync(join(root, folder, name), content)
    return join(root, folder)
  }
  return {
    proc: root,
    group: (id: string, pids: readonly number[]): [VmId, string] => [
      id as VmId,
      write(`group-${id}`, 'cgroup.procs', pids.map((pid) => `${pid}\n`).join('')),
    ],
    process: (pid: number, status: string): void => void write(String(pid), 'status', status),
  }
}

test('a process has anonymous and shared memory, and pages of files beside it', () => {
  assert.deepEqual(parseResident(statusOf(1000, 20, 4)), {
    anonymousBytes: 1004 * 1024,
    fileBytes: 20 * 1024,
  })
})

test('the memory of a process that has ended is unknown', () => {
  assert.equal(parseResident('Name:\tqemu\nState:\tZ (zombie)\n'), undefined)
  assert.equal(parseResident(''), undefined)
})

test('a group has the memory of all its processes, and one whose processes ended is left out', async (t) => {
  const { proc, group, process } = stage(t)
  process(11, statusOf(1024, 0, 0))
  process(12, statusOf(2048, 8, 0))
  process(13, 'State:\tZ (zombie)\n')
  const groups = [
    group('two', [11, 12]),
    group('zombie', [13]),
    group('gone', [99]),
    group('empty', []),
    ['no-group' as VmId, join(proc, 'missing')] as const,
  ]
  const found = await residentIn(groups, proc)
  assert.deepEqual([...found], [['two', { anonymousBytes: 3072 * 1024, fileBytes: 8 * 1024 }]])
})

test('many groups are read in several turns of the event loop', async (t) => {
  const { proc, group, process } = stage(t)
  process(11, statusOf(1024, 0, 0))
  const count = limits.residentLooksATurn * 3
  const groups = Array.from({ length: count }, (_, index) => group(`vm-${index}`, [11]))
  let turns = 0
  const counting = setInterval(() => {}, 1)
  t.after(() => clearInterval(counting))
  const tick = (): void => {
    turns += 1
    if (turns < 10) setImmediate(tick)
  }
  setImmediate(tick)
  assert.equal((await residentIn(groups, proc)).size, count)
  assert.ok(turns >= 2, `${turns} turns`)
})

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
