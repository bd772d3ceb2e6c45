import { existsSync, globSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { attachTo, besideLab, LAB_IN_ENVIRONMENT, labDown, labExec, LAB_NODE, labUp } from '../lab/lab.ts'
import type { Counts } from './counts-reporter.ts'
import type { LabState } from '../lab/lab.ts'
import { withCleanup } from './interrupt.ts'
import { cachePath, checkout } from './paths.ts'
import { runAttached } from './process.ts'
import { watchTestFiles } from './watchdog.ts'

const NOTHING: Counts = { passed: 0, failed: 0, skipped: [] }
/** Bound for a test, or for a whole file that does not end. */
const TEST_BOUND_MS = 120_000
const HOST_TEST_BOUND_MS = 600_000
const LAB_COUNTS = '/tmp/test-counts.json'

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

function testCommand({ node, root, countsFile, boundMs }: TestRun): string[] {
  const reporter = (name: string, target: string) => [
    `--test-reporter=${path.join(root, 'tools', name)}`,
    `--test-reporter-destination=${target}`,
  ]
  const reporters = [...reporter('reporter.ts', 'stdout'), ...reporter('counts-reporter.ts', countsFile)]
  return [node, '--test', '--no-warnings', `--test-timeout=${boundMs}`, ...reporters]
}

function countsOf(text: string, files: number): Counts {
  // A runner that ended without a summary counts as a failure of all its files.
  return text === '' ? { ...NOTHING, failed: files } : (JSON.parse(text) as Counts)
}

type Start = (onStart: (pid: number) => void) => Promise<number>

async function watched(files: readonly string[], boundMs: number, start: Start): Promise<void> {
  let endWatch = () => {}
  await start((pid) => {
    endWatch = watchTestFiles(pid, files, boundMs)
  })
  endWatch()
}

/** Runs test files on this machine. */
export async function runHere(files: readonly string[]): Promise<Counts> {
  return runAs(files, TEST_BOUND_MS, (command) => ({ argv: command }))
}

/**
 * Runs test files on this machine, one after the other, but in the network of a separate lab. This is for tests that
 * need programs that a lab does not have, but may reach only the lab.
 */
export const runBesideLab = (files: readonly string[]): Promise<Counts> =>
  withOwnLab(files, (lab) =>
    runAs(files, HOST_TEST_BOUND_MS, (command) => ({
      argv: besideLab(lab, [...command, '--test-concurrency=1']),
      env: { ...process.env, [LAB_IN_ENVIRONMENT]: lab.name },
    })),
  )

type Run = { readonly argv: readonly string[]; readonly env?: NodeJS.ProcessEnv }

async function runAs(
  files: readonly string[],
  boundMs: number,
  how: (command: readonly string[]) => Run,
): Promise<Counts> {
  if (files.length === 0) return NOTHING
  const countsFile = path.join(cachePath('log'), `test-counts-${process.pid}.json`)
  const { argv, env = process.env } = how(
    testCommand({ node: process.execPath, root: checkout, countsFile, boundMs }),
  )
  await watched(files, boundMs, (onStart) =>
    runAttached([...argv, ...files], { cwd: checkout, env, onStart }),
  )
  const text = existsSync(countsFile) ? readFileSync(countsFile, 'utf8') : ''
  rmSync(countsFile, { force: true })
  return countsOf(text, files.length)
}

/**
 * Runs test files inside labs of their own, which are thrown away afterwards. Each lab runs one file at a time, and takes
 * the next one when that has ended.
 */
export async function runInLabs(files: readonly string[], labs: number): Promise<Counts> {
  const left = [...files]
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
  const bounds = { countsFile: LAB_COUNTS, boundMs: HOST_TEST_BOUND_MS }
  const command = testCommand({ node: LAB_NODE, root: '/src', ...bounds })
  const place = ['env', '-C', '/src', `CI=${process.env['CI'] ?? ''}`]
  await labExec(lab, ['rm', '-f', LAB_COUNTS])
  await watched([file], HOST_TEST_BOUND_MS, (onStart) =>
    attachTo(lab, [...place, ...command, file], { onStart }),
  )
  return countsOf((await labExec(lab, ['cat', LAB_COUNTS])).stdout, 1)
}

/** Boots a lab for these files, and throws it away after the work; does nothing without files. */
async function withOwnLab(
  files: readonly string[],
  work: (lab: LabState) => Promise<Counts>,
  number = 1,
): Promise<Counts> {
  if (files.length === 0) return NOTHING
  const name = `test-${process.pid}-${number}`
  return withCleanup(
    () => labDown(name),
    async () => work(await labUp(name)),
  )
}
