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

/** So many words after `./dev test` can still be read. */
const WORDS_MAX = 12

/** Returns lines that say which test files were not run, and with which command they run. */
export function leftLines(files: readonly string[], tests: readonly string[]): string[] {
  const own = files.filter((file) => !LEFT.test(file))
  const others = files.filter((file) => LEFT.test(file))
  const words = wordsFor(own, tests)
  const lines: string[] = []
  if (words.length > WORDS_MAX) lines.push(`left ${own.length} test files: ${countsByFolder(own)}`)
  else if (own.length > 0)
    lines.push(`left ${own.length} test files; run them with`, `  ./dev test ${words.join(' ')}`)
  if (others.length > 0) lines.push(`left for ./dev test: ${countsByFolder(others)}`)
  return lines
}

/** Returns each room or folder of tests with the number of these files in it. */
function countsByFolder(files: readonly string[]): string {
  const folders = Map.groupBy(files, (file) => path.dirname(file).split('/').slice(0, 2).join('/'))
  return [...folders]
    .map(([folder, own]) => `${folder}/ (${own.length})`)
    .toSorted()
    .join(', ')
}

/** Returns the words after `./dev test` that run exactly these files: a folder if all its tests are among them. */
function wordsFor(files: readonly string[], tests: readonly string[]): string[] {
  const folders = Map.groupBy(files, (file) => path.dirname(file))
  return [...folders].flatMap(([folder, own]) => {
    const all = tests.filter((test) => test.startsWith(`${folder}/`))
    return all.length === own.length && own.length > 1 ? [`${folder}/`] : own
  })
}
