/* A reporter for `node --test`: one line for each file that passed, and all details of failures. */
import path from 'node:path'
import { inspect } from 'node:util'
import { OpenTests } from './open-tests.ts'
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

function reportOf(file: string | undefined): FileReport {
  // Events name a file as an absolute path or as it was given.
  const key = path.resolve(file ?? '')
  const report = reports.get(key) ?? { failures: [], skips: [], output: [], trail: [] }
  reports.set(key, report)
  return report
}

function indent(text: string): string {
  return text.trimEnd().replaceAll(/^/gm, '      ')
}

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
  const report = reportOf(file)
  // A suite fails because a test in it failed, which is already reported.
  if (details.type === 'suite' && report.failures.length > 0) return
  const trail = [...report.trail.slice(0, nesting), name].join(' › ')
  const place = file === undefined ? '' : ` (${path.relative(process.cwd(), file)}:${line ?? 1})`
  report.failures.push(
    `    ✘ ${trail}${place}\n${indent(openTests.sentence(data) + failureText(details.error))}`,
  )
}

/** Files that share this process run one after the other, and have no summaries. */
const isShared = process.execArgv.includes('--test-isolation=none')

/** Returns the failures of the file that ran before this one, so that an end from outside does not hide them. */
function endedBefore(file: string | undefined): string {
  if (!isShared || file === undefined) return ''
  const others = [...reports].filter(([name]) => name !== path.resolve(file))
  return others
    .filter(([, report]) => report.failures.length > 0)
    .map(([name]) => render(name, 'failures'))
    .join('')
}

/** Yields the text of the report as events come in. */
export default async function* reporter(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    const { type, data } = event
    openTests.note(event)
    if (type === 'test:start') yield endedBefore(data.file)
    if (type === 'test:start') reportOf(data.file).trail[data.nesting] = data.name
    else if (type === 'test:stdout' || type === 'test:stderr') reportOf(data.file).output.push(data.message)
    else if (type === 'test:pass') noteSkip(data)
    else if (type === 'test:fail') noteFailure(data)
    else if (type === 'test:summary') {
      yield data.file === undefined ? remaining() : summaryOf({ ...data, file: data.file })
    }
  }
}
