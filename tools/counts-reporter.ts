/* A reporter for `node --test` that writes the numbers of a run as JSON. `./dev test` makes its one summary of them. */
import path from 'node:path'
import { OpenTests } from './open-tests.ts'
import { failureText } from './reporter.ts'
import type { TestEvent } from 'node:test/reporters'
import type { Durations } from './durations.ts'

/** A test that failed or was skipped. */
export interface Exception {
  readonly name: string
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
const SHOWN_ERROR_CHARACTERS = 1500

/** The result of one run. */
export interface RunRecord {
  readonly counts: Counts
  /** Durations of the files whose tests all passed. */
  readonly took: Durations
  /** The files whose tests had begun when the run was ended; absent if it came to its end by itself. */
  readonly begun?: readonly string[]
}

/** One line: a test that ended, or at the end of the run its whole record. */
type Line = { readonly file: string; readonly isPassed: boolean; readonly ms: number } | RunRecord

/** Reads what the reporter wrote. Without the last line the numbers are those of the tests that ended. */
export function readRecord(text: string): RunRecord {
  const lines = text.split('\n').filter((line) => line.endsWith('}'))
  const all = lines.map((line) => JSON.parse(line) as Line)
  const whole = all.find((line) => 'counts' in line)
  if (whole !== undefined) return whole
  const tests = all.flatMap((line) => ('counts' in line ? [] : [line]))
  const passed = tests.filter((test) => test.isPassed).length
  const counts = { passed, failed: tests.length - passed, failures: [], skipped: [] }
  return { counts, took: tookOf(tests), begun: [...new Set(tests.map((test) => test.file))] }
}

const line = (content: Line): string => `${JSON.stringify(content)}\n`

const relative = (file: string | undefined): string => path.relative(process.cwd(), path.resolve(file ?? ''))

/** Adds up the durations of tests by file, without the last file, whose tests may not all have ended. */
function tookOf(tests: readonly Exclude<Line, RunRecord>[]): Durations {
  const files = Map.groupBy(tests, (test) => test.file)
  const ended = [...files].slice(0, -1).filter(([, own]) => own.every((test) => test.isPassed))
  return Object.fromEntries(ended.map(([file, own]) => [file, Math.round(sum(own.map(({ ms }) => ms)))]))
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

/** Adds up how long each file took, and forgets a file when one of its tests fails. */
class FileDurations {
  readonly #ms = new Map<string, number>()
  readonly #failed = new Set<string>()

  note({ type, data }: TestEvent): void {
    if (type === 'test:fail') this.#failed.add(relative(data.file))
    else if (type === 'test:pass' && data.nesting === 0 && data.file !== undefined) {
      const file = relative(data.file)
      this.#ms.set(file, (this.#ms.get(file) ?? 0) + data.details.duration_ms)
    }
    // Only files in processes of their own have a summary; it counts their start too.
    if (type === 'test:summary' && data.file !== undefined)
      this.#ms.set(relative(data.file), data.duration_ms)
  }

  passed(): Durations {
    const all = [...this.#ms].filter(([file]) => !this.#failed.has(file))
    return Object.fromEntries(all.map(([file, ms]) => [file, Math.round(ms)]))
  }
}

/** Yields one JSON document on a line for each test, and a {@link RunRecord} when the run is over. */
export default async function* reporter(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const failures: Exception[] = []
  const skipped: Exception[] = []
  const durations = new FileDurations()
  const openTests = new OpenTests()
  for await (const event of source) {
    durations.note(event)
    openTests.note(event)
    if ((event.type === 'test:pass' || event.type === 'test:fail') && event.data.nesting === 0)
      yield line({
        file: relative(event.data.file),
        isPassed: event.type === 'test:pass',
        ms: event.data.details.duration_ms,
      })
    // A suite fails because of a test in it.
    if (event.type === 'test:fail' && event.data.details.type !== 'suite') {
      const error = openTests.sentence(event.data) + failureText(event.data.details.error)
      const why = error.slice(0, SHOWN_ERROR_CHARACTERS)
      failures.push({ name: event.data.name, file: relative(event.data.file), why })
    }
    if (event.type === 'test:pass' && event.data.skip !== undefined) {
      const why = typeof event.data.skip === 'string' ? event.data.skip : 'no reason given'
      skipped.push({ name: event.data.name, file: relative(event.data.file), why })
    }
    if (event.type !== 'test:summary' || event.data.file !== undefined) continue
    const { tests, passed, skipped: left, todo } = event.data.counts
    const failed = tests - passed - left - todo
    // A broken `before` hook or a crashed file fails the run without a failed test.
    const broken = failed === 0 && !event.data.success ? 1 : 0
    const record: RunRecord = {
      counts: { passed, failed: failed + broken, failures, skipped },
      took: durations.passed(),
    }
    yield line(record)
  }
}
