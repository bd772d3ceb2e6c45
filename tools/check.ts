import path from 'node:path'
import { addCounts, NOTHING, runHere, testFiles } from './run-tests.ts'
import { ensureClientTypes } from './client-types.ts'
import { cachePath, checkout, slug } from './paths.ts'
import { step, StepFailed } from './step.ts'
import { SHOWN_ERROR_CHARACTERS } from './counts-reporter.ts'
import type { Counts, Exception } from './counts-reporter.ts'

const installed = (tool: string): string => path.join(checkout, 'node_modules/.bin', tool)

type Check = { readonly name: string; readonly argv: readonly string[] }

/** Checks types, and keeps for the next run what it found about each file of this checkout. */
function typesOf(project: string): string[] {
  const known = path.join(cachePath('types', slug(checkout)), `${slug(project) || 'all'}.tsbuildinfo`)
  return [installed('tsc'), '--noEmit', '-p', project, '--incremental', '--tsBuildInfoFile', known]
}

export const TYPE_CHECKS: readonly Check[] = [
  { name: 'types (tsc)', argv: typesOf('.') },
  { name: 'types of the pages (tsc)', argv: typesOf('src/page') },
]

/** Returns the checks of the text of these files; without files, of all sources. */
export const textChecks = (files: readonly string[] = []): Check[] => [
  {
    name: 'lint (oxlint, with types)',
    argv: [installed('oxlint'), '--type-aware', '--deny-warnings', ...files],
  },
  { name: 'format (oxfmt)', argv: [installed('oxfmt'), '--check', ...files] },
]

const STATIC: readonly Check[] = [
  ...TYPE_CHECKS,
  ...textChecks(),
  {
    name: 'OpenAPI documents (redocly, recommended rules)',
    argv: [process.execPath, path.join(import.meta.dirname, 'openapi-lint.ts')],
  },
]

/** Tests that need neither root nor a lab and take seconds. */
export const FAST_TESTS = [
  'src/**/*.test.ts',
  'lab/**/*.test.ts',
  'tools/**/*.test.ts',
  'bench/**/*.test.ts',
  'test/tidy.test.ts',
  'test/prose.test.ts',
  'test/plan-cases/**/*.test.ts',
  'test/contract/**/*.test.ts',
  'test/fakes/**/*.test.ts',
]

/** Runs checks, by default types, lint, format and the OpenAPI document; each counts as one test. */
export async function runStatic(checks = STATIC): Promise<Counts> {
  // Run all at once: each leaves a core idle part of its time.
  const results = await Promise.all(checks.map(runOne))
  const failures = results.flat()
  return { ...NOTHING, passed: results.length - failures.length, failed: failures.length, failures }
}

/** Returns the failure of a check, if it failed. */
async function runOne({ name, argv }: Check): Promise<Exception[]> {
  try {
    await step(name, (log) => log.run(argv, { cwd: checkout }))
    return []
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error
    return [{ name, file: '', why: error.output.slice(0, SHOWN_ERROR_CHARACTERS) }]
  }
}

/**
 * Prints the last lines of a run, and returns its exit status. Failures come again, because in a long run they stand
 * thousands of lines above, and a log may be shown from its end.
 */
export function conclude(counts: Counts, startedAt: number): number {
  const reasons = Map.groupBy(counts.skipped, ({ why }) => why)
  for (const [why, tests] of reasons) console.log(`  skipped: ${tests.length}: ${why}`)
  for (const { name, file, why } of counts.failures)
    console.log(`  failed: ${file === '' ? '' : `${file}: `}${name}\n${why.replaceAll(/^/gm, '      ')}`)
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
  console.log(`\ntook ${seconds} s`)
  console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped.length} skipped`)
  return counts.failed === 0 ? 0 : 1
}

/** Runs `./dev check`. Returns the exit status. */
export async function main(): Promise<number> {
  const startedAt = performance.now()
  await ensureClientTypes()
  const counts = addCounts([await runStatic(), await runHere(testFiles(FAST_TESTS))])
  return conclude(counts, startedAt)
}
