/* Says what `./dev try` did not run. */
import path from 'node:path'
import { NOTHING } from '../run-tests.ts'
import { LEFT } from './apart.ts'
import type { Counts } from '../counts-reporter.ts'

/**
 * Returns a failure for each changed test file among those that were not run, so that a run does not pass without it.
 * Tests that are always left do not count.
 */
export function missedOf(changed: readonly string[], notRun: readonly string[]): Counts {
  const missed = changed.filter((file) => notRun.includes(file) && !LEFT.test(file))
  const why = 'it was changed, and its tests did not come to their end'
  return {
    ...NOTHING,
    failed: missed.length,
    failures: missed.map((file) => ({ name: 'the whole file was not run', file, why })),
  }
}

/** Returns the words after `./dev test` that run exactly these files: a folder if all its tests are among them. */
export function wordsFor(files: readonly string[], tests: readonly string[]): string[] {
  const folders = Map.groupBy(files, (file) => path.dirname(file))
  return [...folders].flatMap(([folder, own]) => {
    const all = tests.filter((test) => test.startsWith(`${folder}/`))
    return all.length === own.length && own.length > 1 ? [`${folder}/`] : own
  })
}
