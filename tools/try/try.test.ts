import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { readRecord } from '../counts-reporter.ts'
import { checkout } from '../paths.ts'
import { APART } from './apart.ts'
import { choose, readProject } from './choose.ts'
import { leftLines, missedOf } from './left.ts'
import { reachedTests, readUsers } from './reach.ts'
import type { Known } from './choose.ts'
import type { Reached } from './reach.ts'

const users = new Map([
  ['src/a.ts', ['src/b.ts', 'src/room/a.test.ts']],
  ['src/b.ts', ['src/b.test.ts']],
])
const tests = ['src/b.test.ts', 'src/room/a.test.ts', 'src/other.test.ts', 'test/tidy.test.ts']

test('a change reaches the tests that load it, nearest first, and those that read every file', () => {
  const files = reachedTests(['src/a.ts'], { users, tests }).map(({ file }) => file)
  assert.deepEqual(files, ['src/b.test.ts', 'src/room/a.test.ts', 'test/tidy.test.ts'])
})

test('a test beside a changed file is as near as one that imports it', () => {
  const near = reachedTests(['src/a.ts'], { users, tests }).map(({ distance }) => distance)
  assert.deepEqual(near.slice(0, 2), [1, 1])
})

test('in this checkout a changed file reaches its importers, the readers of its folder, and the package', () => {
  const project = readProject()
  const reached = (...names: string[]): string[] =>
    reachedTests([names.join('/')], project).map((one) => one.file)
  assert.equal(reached('src', 'core/plan/plan.ts')[0]?.startsWith('test/plan-cases/'), true)
  assert.ok(reached('src', 'core/plan/plan.ts').includes('test/host/daemon.test.ts'))
  assert.ok(reached('test', 'plan-cases/sleep.txt').includes('test/plan-cases/plan-cases.test.ts'))
  assert.ok(reached('docs', 'vmhostctl.md').includes('test/ctl/help.test.ts'))
  assert.ok(reached('src', 'host/threads/flush-thread.ts').length > 1)
})

const known: Known = { alone: {}, together: { a: 300, b: 900, c: 50 } }
const at = (file: string, distance: number): Reached => ({ file, distance })

test('the nearest tests run until the budget is used, and simulations never', () => {
  const budget = { nearMs: 400, farMs: 400, near: 2 }
  const choice = choose([at('b', 2), at('a', 1), at('c', 3), at('test/sim/d.test.ts', 1)], known, budget)
  assert.deepEqual(choice.together, ['a', 'c'])
  assert.deepEqual(choice.left, ['test/sim/d.test.ts', 'b'])
  assert.equal(choice.costMs, 350)
})

test('a near test has a larger budget than a far one', () => {
  const budget = { nearMs: 1000, farMs: 310, near: 2 }
  assert.deepEqual(choose([at('b', 2), at('a', 3)], known, budget).together, ['b'])
  assert.deepEqual(choose([at('a', 3), at('c', 4), at('b', 3)], known, budget).left, ['b', 'c'])
})

test('a test of the daemon or the client that never ran here is taken for a long one', () => {
  const budget = { nearMs: 6000, farMs: 6000, near: 2 }
  const files = ['src/lib/a', 'test/daemon/a', 'test/ctl/a', 'src/daemon/a', 'src/daemon/b']
  const choice = choose(
    files.map((file) => at(`${file}.test.ts`, 1)),
    known,
    budget,
  )
  assert.deepEqual(choice.left, ['src/daemon/a.test.ts', 'src/daemon/b.test.ts'])
})

test('what is left is named by its folder, and what only ./dev test runs stands apart', () => {
  const file = (folder: string) => (name: string) => `${folder}/${name}.test.ts`
  const all = [
    ...['a', 'b'].map(file('t')),
    ...['a', 'b'].map(file('u')),
    ...['a', 'b'].map(file('test/host')),
    'test/reboot/a.test.ts',
  ]
  const left = all.filter((one) => one !== 'u/b.test.ts')
  assert.deepEqual(leftLines(left, all), [
    'left 3 test files; run them with',
    '  ./dev test t/ u/a.test.ts',
    'left for ./dev test: test/host/ (2), test/reboot/ (1)',
  ])
  assert.deepEqual(leftLines([], all), [])
})

test('many test files that are left are named by their folders with their numbers', () => {
  const left = Array.from({ length: 9 }, (_, number) => [
    `t/a${number}.test.ts`,
    `u/a${number}.test.ts`,
  ]).flat()
  const all = [...left, 't/z.test.ts', 'u/z.test.ts']
  assert.deepEqual(leftLines(left, all), ['left 18 test files: t/ (9), u/ (9)'])
})

test('a changed test file that was not run is a failure, unless such files are always left', () => {
  const changed = ['src/a.ts', 'src/a.test.ts', 'src/b.test.ts', 'test/host/c.test.ts']
  const { failed, failures } = missedOf(changed, ['src/b.test.ts', 'src/d.test.ts', 'test/host/c.test.ts'])
  assert.deepEqual([failed, failures.map(({ file }) => file)], [1, ['src/b.test.ts']])
})

test('a run that was ended reports the tests that ended, and learns from the files that ended', () => {
  const line = (content: object) => `${JSON.stringify(content)}\n`
  const failure = { name: 'fails', file: 'b', why: 'Error' }
  const file = (ended: string, isPassed: boolean) => line({ ended, isPassed, ms: 8 })
  const passed = line({ isPassed: true })
  const b = `${line({ isPassed: false, failure })}${file('b', false)}`
  assert.deepEqual(readRecord(`${passed}${passed}${file('a', true)}${b}${passed}{"ended":"c","is`), {
    counts: { passed: 3, failed: 1, failures: [failure], skipped: [] },
    took: { a: 8 },
    ended: ['a', 'b'],
  })
})

test('a test that lets the kernel refuse a call, for the rest of its process, runs apart', () => {
  const direct = readUsers().get(['test', 'refuse-call.ts'].join('/')) ?? []
  assert.ok(direct.length > 0)
  assert.deepEqual(
    direct.filter((file) => !Object.hasOwn(APART, file)),
    [],
    'add it to APART in tools/try/apart.ts',
  )
})

test('every file that runs apart exists', () => {
  for (const file of Object.keys(APART)) assert.ok(existsSync(path.join(checkout, file)), file)
})
