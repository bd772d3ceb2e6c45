/* A reporter for `node --test` that writes the numbers of a run as JSON, for the one summary at the end of `./dev test`. */
import path from 'node:path'
import type { TestEvent } from 'node:test/reporters'

/** The result of one run of tests. */
export interface Counts {
  readonly passed: number
  readonly failed: number
  readonly skipped: readonly { readonly name: string; readonly file: string; readonly why: string }[]
}

/** Yields one JSON document when the run is over. */
export default async function* reporter(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const skipped: { name: string; file: string; why: string }[] = []
  for await (const event of source) {
    if (event.type === 'test:pass' && event.data.skip !== undefined) {
      const why = typeof event.data.skip === 'string' ? event.data.skip : 'no reason given'
      skipped.push({ name: event.data.name, file: path.relative(process.cwd(), event.data.file ?? ''), why })
    }
    if (event.type !== 'test:summary' || event.data.file !== undefined) continue
    const { tests, passed, skipped: left, todo } = event.data.counts
    const failed = tests - passed - left - todo
    // A broken `before` hook or a crashed file fails the run without a failed test.
    const broken = failed === 0 && !event.data.success ? 1 : 0
    const counts: Counts = { passed, failed: failed + broken, skipped }
    yield JSON.stringify(counts)
  }
}
