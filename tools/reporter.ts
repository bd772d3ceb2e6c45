/* A reporter for `node --test`: one line for each file that passed, and all details of failures. */
import path from 'node:path'
import { inspect } from 'node:util'
import { OpenTests } from './open-tests.ts'
import { isOfRun, sharedFileOf } from './shared-files.ts'
import type { TestEvent } from 'node:test/reporters'

type TestPass = Extract<TestEvent, { type: 'test:pass' }>['data']
type TestFail = Extract<TestEvent, { type: 'test:fail' }>['data']

interface FileReport {
  failures: string[]
  skips: string[]
  output: string[]
  /** The names of the tests around the current one, by nesting. */
  trail: string[]
}

const reports = new Map<string, FileReport>()

const openTests = new OpenTests()

/** The file that runs now, if files share one process. The tests of a contract stand in another file. */
let sharedFile: string | undefined

function reportOf(file: string | undefined): FileReport {
  // Events name a file as an absolute path or as it was given.
  const key = path.resolve(sharedFile ?? file ?? '')
  const report = reports.get(key) ?? { failures: [], skips: [], output: [], trail: [] }
  reports.set(key, report)
  return report
}

function indent(text: string): string {
  return text.trimEnd().replaceAll(/^/gm, '      ')
}

/** Returns whether a suite failed only because of what is in it, which is a failure by itself. */
export const isOfInner = ({ details: { type, error } }: TestFail): boolean =>
  type === 'suite' && 'failureType' in error && error.failureType === 'subtestsFailed'

/** Returns the text of a test's error. */
export function failureText(error: unknown): string {
  // Node wraps the error of a test; the wrapper only repeats it.
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return inspect(cause, { depth: 6 })
}

function summaryOf(data: { file: string; duration_ms: number; counts: { passed: number } }): string {
  return render(data.file, `${data.counts.passed} passed (${(data.duration_ms / 1000).toFixed(1)} s)`)
}

/** Reports what no summary has: files whose process was killed, and files that define tests for others to run. */
function remaining(): string {
  return [...reports]
    .filter(([, report]) => report.failures.length + report.skips.length > 0)
    .map(([file, report]) => render(file, report.failures.length > 0 ? 'failures' : 'skips'))
    .join('')
}

function render(file: string, outcome: string): string {
  const report = reportOf(file)
  reports.delete(path.resolve(file))
  const mark = report.failures.length === 0 ? '✔' : '✘'
  const lines = [`  ${mark} ${path.relative(process.cwd(), file)}: ${outcome}`]
  for (const failure of report.failures) lines.push(failure)
  for (const skip of report.skips) lines.push(skip)
  if (report.failures.length > 0 && report.output.length > 0) {
    lines.push('    its output:', indent(report.output.join('')))
  }
  return `${lines.join('\n')}\n`
}

function noteSkip({ name, file, skip }: TestPass): void {
  if (skip === undefined) return
  const why = typeof skip === 'string' ? skip : 'no reason given'
  reportOf(file).skips.push(`    – skipped: ${name}: ${why}`)
}

function noteFailure(data: TestFail): void {
  const { name, nesting, file, line, details } = data
  if (isOfInner(data)) return
  const report = reportOf(file)
  const isWholeFile = sharedFile !== undefined && nesting === 0
  const trail = [...report.trail.slice(sharedFile === undefined ? 0 : 1, nesting), name].join(' › ')
  const place =
    file === undefined || isWholeFile ? '' : ` (${path.relative(process.cwd(), file)}:${line ?? 1})`
  report.failures.push(
    `    ✘ ${trail}${place}\n${indent(openTests.sentence(data) + failureText(details.error))}`,
  )
}

/** Returns the report of a file that shared this process and has come to its end; empty if all its tests passed. */
function endShared(file: string): string {
  const report = reportOf(file)
  sharedFile = undefined
  if (report.failures.length > 0) return render(file, 'failures')
  return report.skips.length > 0 ? render(file, 'skips') : ''
}

/** Yields the text of the report as events come in. */
export default async function* reporter(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    const { type, data } = event
    openTests.note(event)
    const shared = sharedFileOf(event)
    if (type === 'test:start' && shared !== undefined) sharedFile = shared
    if (type === 'test:start') reportOf(data.file).trail[data.nesting] = data.name
    else if (type === 'test:stdout' || type === 'test:stderr') reportOf(data.file).output.push(data.message)
    else if (type === 'test:pass') noteSkip(data)
    else if (type === 'test:fail') noteFailure(data)
    else if (type === 'test:summary') {
      const { file } = data
      yield file === undefined || isOfRun(file) ? remaining() : summaryOf({ ...data, file })
    }
    if (shared !== undefined && type !== 'test:start') yield endShared(shared)
  }
}
