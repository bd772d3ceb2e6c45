import { existsSync, globSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import { attachTo, besideLab, besideLabs, LAB_IN_ENVIRONMENT, labExec, LAB_NODE } from '../lab/lab.ts'
import { readRecord } from './counts-reporter.ts'
import type { Counts } from './counts-reporter.ts'
import { keepDurations, readDurations } from './durations.ts'
import type { Isolation } from './durations.ts'
import { joinLabs } from '../lab/wires.ts'
import type { LabState } from '../lab/lab.ts'
import { inOwnLab } from './own-lab.ts'
import { cachePath, checkout } from './paths.ts'
import { IN_ORDER } from './shared-files.ts'
import { run, runAttached } from './process.ts'
import type { AttachOptions } from './process.ts'
import { watchTestFiles } from './watchdog.ts'

export const NOTHING: Counts = { passed: 0, failed: 0, failures: [], skipped: [] }
/** Bound for a test, or for a whole file that does not end. Simulations take four minutes on a slow machine. */
const TEST_BOUND_MS = 600_000
/** A folder in memory that every Linux host has. */
const MEMORY = '/dev/shm'
const LAB_COUNTS = '/tmp/test-counts.json'
const LAB_COMPILED = '/tmp/compiled'

/**
 * Returns the test files that match patterns, relative to the checkout. With words, returns only those whose path
 * contains one of them.
 */
export function testFiles(patterns: readonly string[], words: readonly string[] = []): string[] {
  const files = globSync([...patterns], { cwd: checkout }).toSorted()
  return words.length === 0 ? files : files.filter((file) => words.some((word) => file.includes(word)))
}

/** Adds up the results of several runs. */
export function addCounts(all: readonly Counts[]): Counts {
  return {
    passed: all.reduce((sum, counts) => sum + counts.passed, 0),
    failed: all.reduce((sum, counts) => sum + counts.failed, 0),
    failures: all.flatMap((counts) => counts.failures),
    skipped: all.flatMap((counts) => counts.skipped),
  }
}

interface TestRun {
  node: string
  /** Path of the checkout for the process that runs the tests. */
  root: string
  countsFile: string
  boundMs: number
}

const testCommand = (bounds: TestRun): string[] => [bounds.node, '--test', ...testOptions(bounds)]

function testOptions({ root, countsFile, boundMs }: Omit<TestRun, 'node'>): string[] {
  const reporter = (name: string, target: string) => [
    `--test-reporter=${path.join(root, 'tools', name)}`,
    `--test-reporter-destination=${target}`,
  ]
  const reporters = [...reporter('reporter.ts', 'stdout'), ...reporter('counts-reporter.ts', countsFile)]
  return ['--no-warnings', `--test-timeout=${boundMs}`, ...reporters]
}

/** Returns the command that runs test files in one process, in this order. */
export const togetherCommand = (
  files: readonly string[],
  bounds: Pick<TestRun, 'countsFile' | 'boundMs'>,
): string[] => [
  process.execPath,
  ...testOptions({ root: checkout, ...bounds }),
  // A handle that a test leaves open must not keep the process of all other tests.
  '--test-force-exit',
  IN_ORDER,
  ...files,
]

/** Returns the numbers of a run, and keeps its durations. */
function countsOf(text: string, files: number): Counts {
  // A runner that ended without a summary counts as a failure of all its files.
  const { counts, took, ended } = readRecord(text)
  if (ended !== undefined) return { ...NOTHING, failed: files }
  keepDurations('alone', took)
  return counts
}

function takeText(file: string): string {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  rmSync(file, { force: true })
  return text
}

type Start = (options: Pick<AttachOptions, 'onStart' | 'isUnattended'>) => Promise<number>

async function watched(files: readonly string[], boundMs: number, start: Start): Promise<void> {
  let endWatch = () => {}
  const onStart = (pid: number): void => {
    endWatch = watchTestFiles(pid, files, boundMs)
  }
  await start({ onStart, isUnattended: true })
  endWatch()
}

/** Node's runner leaves one core free unless it gets a number; the tests need every core. */
const ON_EVERY_CORE = `--test-concurrency=${availableParallelism()}`

/**
 * Returns the environment of tests on this machine. Their temporary files are in memory, because many tests write a
 * store and wait for the disk after each commit. Node keeps what it compiled of each module for the next process.
 */
const here = (): NodeJS.ProcessEnv => ({
  ...process.env,
  TMPDIR: existsSync(MEMORY) ? MEMORY : tmpdir(),
  NODE_COMPILE_CACHE: cachePath('compiled'),
})

/** Runs test files on this machine. */
export async function runHere(files: readonly string[]): Promise<Counts> {
  return runAs(files, TEST_BOUND_MS, (command) => ({ argv: [...command, ON_EVERY_CORE], env: here() }))
}

/**
 * Runs test files on this machine, one after the other, but in the network of a separate lab. This is for tests that
 * need programs that a lab does not have, but may reach only the lab.
 */
export const runBesideLab = (files: readonly string[]): Promise<Counts> =>
  withOwnLab(files, (lab) =>
    runAs(files, TEST_BOUND_MS, (command) => ({
      argv: besideLab(lab, [...command, '--test-concurrency=1']),
      env: { ...process.env, [LAB_IN_ENVIRONMENT]: lab.name },
    })),
  )

/**
 * Runs test files one after the other on this machine, with two labs that are joined by a wire, and in a network of
 * their own. The kernel ends each test with this process, and its network with it.
 */
export const runBesideTwoLabs = (files: readonly string[]): Promise<Counts> =>
  withOwnLab(files, (a) =>
    withOwnLab(
      files,
      async (b) => {
        await joinLabs(a, b)
        const all: Counts[] = []
        for (const file of files) all.push(await runInOwnNetwork(file, [a, b]))
        return addCounts(all)
      },
      2,
    ),
  )

async function runInOwnNetwork(file: string, labs: readonly LabState[]): Promise<Counts> {
  const countsFile = path.join(cachePath('log'), `test-counts-${process.pid}.json`)
  const bounds = { countsFile, boundMs: TEST_BOUND_MS }
  const command = testCommand({ node: process.execPath, root: checkout, ...bounds })
  // In one process, so that there is no further one that the kernel would leave.
  const alone = ['--test-isolation=none', '--test-force-exit']
  const startedAt = performance.now()
  const { argv, env } = besideLabs(labs, [...command, ...alone, file])
  await run(argv, {
    cwd: checkout,
    env,
    timeoutMs: TEST_BOUND_MS,
    onOutput: (chunk) => process.stdout.write(chunk),
  })
  const counts = countsOf(takeText(countsFile), 1)
  // The reporter has no summary of a file that shares the runner's process.
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  if (counts.failed === 0) console.log(`  ✔ ${file}: ${counts.passed} passed (${seconds} s)`)
  return counts
}

type Run = { readonly argv: readonly string[]; readonly env: NodeJS.ProcessEnv }

async function runAs(
  files: readonly string[],
  boundMs: number,
  how: (command: readonly string[]) => Run,
): Promise<Counts> {
  if (files.length === 0) return NOTHING
  const countsFile = path.join(cachePath('log'), `test-counts-${process.pid}.json`)
  const { argv, env } = how(testCommand({ node: process.execPath, root: checkout, countsFile, boundMs }))
  await watched(files, boundMs, (options) =>
    runAttached([...argv, ...files], { cwd: checkout, env, ...options }),
  )
  return countsOf(takeText(countsFile), files.length)
}

/** How `./dev try` runs tests: in one process or one for each file, bounded as a whole. */
export type BoundedRun = {
  readonly isolation: Isolation
  readonly boundMs: number
  readonly testBoundMs: number
}

/** The result of a bounded run, and the files that it did not come to before it was ended. */
export type BoundedResult = { readonly counts: Counts; readonly unfinished: readonly string[] }

/** Runs test files on this machine, and ends them all when the time is over. */
export async function runBounded(files: readonly string[], bounds: BoundedRun): Promise<BoundedResult> {
  if (files.length === 0) return { counts: NOTHING, unfinished: [] }
  const { isolation, boundMs, testBoundMs } = bounds
  const countsFile = path.join(cachePath('log'), `try-counts-${process.pid}-${isolation}.json`)
  const command =
    isolation === 'together'
      ? togetherCommand(files, { countsFile, boundMs: testBoundMs })
      : [
          ...testCommand({ node: process.execPath, root: checkout, countsFile, boundMs: testBoundMs }),
          ...files,
        ]
  const { timedOut } = await run(command, {
    cwd: checkout,
    env: here(),
    timeoutMs: boundMs,
    onOutput: (chunk) => process.stdout.write(chunk),
  })
  const { counts, took, ended } = readRecord(takeText(countsFile))
  keepDurations(isolation, took)
  if (ended === undefined) return { counts, unfinished: [] }
  const unfinished = files.filter((file) => !ended.includes(file))
  return timedOut
    ? { counts, unfinished }
    : { counts: { ...counts, failed: Math.max(1, counts.failed) }, unfinished }
}

/** Returns files with the longest first, by their last run; one that never ran here may be long. */
function longestFirst(files: readonly string[]): string[] {
  const took = readDurations('alone')
  const durationOf = (file: string): number => took[file] ?? Infinity
  return files.toSorted((a, b) => (durationOf(a) === durationOf(b) ? 0 : durationOf(b) - durationOf(a)))
}

/**
 * Runs test files inside labs of their own, which are thrown away afterwards. Each lab runs one file at a time, and
 * takes the next one when that has ended; the longest come first, so that all labs end at about the same time.
 */
export async function runInLabs(files: readonly string[], labs: number): Promise<Counts> {
  const left = longestFirst(files)
  const drain = async (lab: LabState): Promise<Counts> => {
    const all: Counts[] = []
    for (let file = left.shift(); file !== undefined; file = left.shift())
      all.push(await runInside(lab, file))
    return addCounts(all)
  }
  const numbers = Array.from({ length: Math.min(labs, files.length) }, (_, index) => index + 1)
  return addCounts(await Promise.all(numbers.map((number) => withOwnLab(files, drain, number))))
}

async function runInside(lab: LabState, file: string): Promise<Counts> {
  const bounds = { countsFile: LAB_COUNTS, boundMs: TEST_BOUND_MS }
  const command = testCommand({ node: LAB_NODE, root: '/src', ...bounds })
  const place = ['env', '-C', '/src', `CI=${process.env['CI'] ?? ''}`, `NODE_COMPILE_CACHE=${LAB_COMPILED}`]
  await labExec(lab, ['rm', '-f', LAB_COUNTS])
  await watched([file], TEST_BOUND_MS, (options) => attachTo(lab, [...place, ...command, file], options))
  return countsOf((await labExec(lab, ['cat', LAB_COUNTS])).stdout, 1)
}

/** Boots a lab for these files, and throws it away after the work; does nothing without files. */
async function withOwnLab(
  files: readonly string[],
  work: (lab: LabState) => Promise<Counts>,
  number = 1,
): Promise<Counts> {
  if (files.length === 0) return NOTHING
  return inOwnLab(`test-${process.pid}-${number}`, work)
}
