/* A reporter for `node --test` that writes the numbers of a run as JSON. `./dev test` makes its one summary of them. */
import path from 'node:path'
import { OpenTests } from './open-tests.ts'
import { failureText, isOfInner } from './reporter.ts'
import { isOfRun, sharedFileOf } from './shared-files.ts'
import type { TestEvent } from 'node:test/reporters'
import type { Durations } from './durations.ts'

/** A test that failed or was skipped. */
export interface Exception {
  readonly name: string
  /** Empty if it is not a test, but a check of all files. */
  readonly file: string
  /** The error, or the reason of the skip. */
  readonly why: string
}

/** The result of one run of tests. */
export interface Counts {
  readonly passed: number
  readonly failed: number
  /** The failed tests by name. A file that crashed or was ended counts in `failed` and may lack here. */
  readonly failures: readonly Exception[]
  readonly skipped: readonly Exception[]
}

/** Characters of an error that a summary shows. The whole error stands where the test ran. */
export const SHOWN_ERROR_CHARACTERS = 1500

/** The result of one run. */
export interface RunRecord {
  readonly counts: Counts
  /** Durations of the files whose tests all passed. */
  readonly took: Durations
  /** The files that had come to their end when the run was ended; absent if it came to its end by itself. */
  readonly ended?: readonly string[]
}

type EndedTest = { readonly isPassed: boolean; readonly failure?: Exception }
type EndedFile = { readonly ended: string; readonly isPassed: boolean; readonly ms: number }

/** One line: a test or a file that ended, or at the end of the run its whole record. */
type Line = EndedTest | EndedFile | RunRecord

/** Reads what the reporter wrote. Without the last line the numbers are those of the tests that ended. */
export function readRecord(text: string): RunRecord {
  const lines = text.split('\n').filter((line) => line.endsWith('}'))
  const all = lines.map((line) => JSON.parse(line) as Line)
  const whole = all.find((line) => 'counts' in line)
  if (whole !== undefined) return whole
  const files = all.flatMap((line) => ('ended' in line && 'ms' in line ? [line] : []))
  const tests = all.flatMap((line) => ('counts' in line || 'ended' in line ? [] : [line]))
  const passed = tests.filter((test) => test.isPassed).length
  const failures = tests.flatMap(({ failure }) => failure ?? [])
  const counts = { passed, failed: tests.length - passed, failures, skipped: [] }
  return { counts, took: tookOf(files), ended: files.map((file) => file.ended) }
}

const line = (content: Line): string => `${JSON.stringify(content)}\n`

const relative = (file: string | undefined): string => path.relative(process.cwd(), path.resolve(file ?? ''))

/** Returns the durations of the files whose tests all passed. */
const tookOf = (files: readonly EndedFile[]): Durations =>
  Object.fromEntries(files.filter((file) => file.isPassed).map(({ ended, ms }) => [ended, Math.round(ms)]))

/** Returns the file that came to its end with this event, if one did. */
function endedFile(event: TestEvent): EndedFile | undefined {
  const { type, data } = event
  // A file in a process of its own has a summary; it counts the start of the process too.
  if (type === 'test:summary' && !isOfRun(data.file))
    return { ended: relative(data.file), isPassed: data.success, ms: data.duration_ms }
  const shared = sharedFileOf(event)
  if (shared === undefined || (type !== 'test:pass' && type !== 'test:fail')) return undefined
  return { ended: relative(shared), isPassed: type === 'test:pass', ms: data.details.duration_ms }
}

/** Returns a test that failed, or a suite that failed by itself. */
function failureOf(event: TestEvent, openTests: OpenTests): Exception | undefined {
  if (event.type !== 'test:fail' || isOfInner(event.data)) return undefined
  const { name, file, details } = event.data
  const error = openTests.sentence(event.data) + failureText(details.error)
  return {
    name,
    file: relative(sharedFileOf(event) ?? file),
    why: error.slice(0, SHOWN_ERROR_CHARACTERS),
  }
}

/** Yields one JSON document on a line for each test and file, and a {@link RunRecord} when the run is over. */
export default async function* reporter(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const failures: Exception[] = []
  const skipped: Exception[] = []
  const files: EndedFile[] = []
  const openTests = new OpenTests()
  for await (const event of source) {
    openTests.note(event)
    const failure = failureOf(event, openTests)
    if (failure !== undefined) {
      failures.push(failure)
      yield line({ isPassed: false, failure })
    }
    if (event.type === 'test:pass' && event.data.skip !== undefined) {
      const why = typeof event.data.skip === 'string' ? event.data.skip : 'no reason given'
      skipped.push({ name: event.data.name, file: relative(event.data.file), why })
    } else if (event.type === 'test:pass' && event.data.details.type !== 'suite')
      yield line({ isPassed: true })
    const file = endedFile(event)
    if (file !== undefined) {
      files.push(file)
      yield line(file)
    }
    if (event.type === 'test:summary' && isOfRun(event.data.file))
      yield line(recordOf(event.data, { failures, skipped, files }))
  }
}

type Seen = {
  readonly failures: readonly Exception[]
  readonly skipped: readonly Exception[]
  readonly files: readonly EndedFile[]
}

function recordOf(
  { counts, success }: Extract<TestEvent, { type: 'test:summary' }>['data'],
  { failures, skipped, files }: Seen,
): RunRecord {
  const { tests, passed, skipped: left, todo } = counts
  // A hook or an import that fails is not a failure of a test.
  const failed = Math.max(tests - passed - left - todo, failures.length, success ? 0 : 1)
  return { counts: { passed, failed, failures, skipped }, took: tookOf(files) }
}
