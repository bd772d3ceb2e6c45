import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { CHROMIUM, ensurePackages, LINTIAN, MANDOC } from './apt.ts'
import { conclude, FAST_TESTS, runStatic } from './check.ts'
import { ensureClientTypes } from './client-types.ts'
import {
  addCounts,
  NOTHING,
  runBesideLab,
  runBesideTwoLabs,
  runHere,
  runInLabs,
  testFiles,
} from './run-tests.ts'
import { StepFailed } from './step.ts'
import type { Counts } from './counts-reporter.ts'

const PACKAGE_TESTS = ['test/package/**/*.test.ts']
const SLOW_TESTS = [
  ...['test/daemon/**/*.test.ts', 'test/ctl/**/*.test.ts', 'test/sim/**/*.test.ts'],
  ...PACKAGE_TESTS,
]
const BROWSER_TESTS = ['test/browser/**/*.test.ts']
const HOST_TESTS = ['test/host/**/*.test.ts']
const HOST_BROWSER_TESTS = ['test/browser-on-host/**/*.test.ts']
/** They reboot their lab, and so run beside it. */
const REBOOT_TESTS = ['test/reboot/**/*.test.ts']
const TWO_HOSTS_TESTS = ['test/two-hosts/**/*.test.ts']

/** Every test of the project, by pattern. */
const EVERY_TEST = [
  ...FAST_TESTS,
  ...SLOW_TESTS,
  ...BROWSER_TESTS,
  ...HOST_TESTS,
  ...HOST_BROWSER_TESTS,
  ...REBOOT_TESTS,
  ...TWO_HOSTS_TESTS,
]

/** Returns the test files whose path has one of these words. */
export const testFilesOf = (words: readonly string[]): string[] => testFiles(EVERY_TEST, words)

const HELP = `./dev test [WORD…] [--labs N]   everything; with words, only the test files whose path holds one of them

  --labs N   run host tests in N labs side by side; 2 unless given, 1 on a machine with one core
`

/** Host tests wait most of their time, so that two labs share two cores well. */
const LABS = Math.min(2, availableParallelism())

/** In CI, a test must not be skipped because a tool is missing. */
const inCi = process.env['CI'] === 'true'

/** Installs the browser. If that fails, its tests say so and are skipped. */
async function ensureBrowser(words: readonly string[]): Promise<void> {
  if (testFiles([...BROWSER_TESTS, ...HOST_BROWSER_TESTS], words).length === 0 || process.getuid?.() !== 0)
    return
  try {
    await ensurePackages([CHROMIUM])
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error
  }
}

/**
 * Installs what tests of the package need, and builds it, because that may take longer than a test may. If something
 * fails, it fails again in the tests.
 */
async function ensureBuild(words: readonly string[]): Promise<void> {
  if (testFiles(PACKAGE_TESTS, words).length === 0 || process.getuid?.() !== 0) return
  try {
    await ensurePackages([LINTIAN, MANDOC])
    const { buildDeb } = await import('./deb.ts')
    await buildDeb()
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error
  }
}

async function hostTests(words: readonly string[], labs: number): Promise<Counts> {
  const inside = testFiles(HOST_TESTS, words)
  const beside = testFiles(HOST_BROWSER_TESTS, words)
  const rebooting = testFiles(REBOOT_TESTS, words)
  const besideTwo = testFiles(TWO_HOSTS_TESTS, words)
  const files = [...inside, ...beside, ...rebooting, ...besideTwo]
  if (files.length === 0) return NOTHING
  if (process.getuid?.() !== 0) {
    const why = 'host tests run in the lab, which needs root'
    return { ...NOTHING, skipped: files.map((file) => ({ name: 'the whole file', file, why })) }
  }
  try {
    // Tests install the package that an operator would install: it is at /src/dist inside the lab.
    const { buildDeb } = await import('./deb.ts')
    await buildDeb()
    if (inside.some((file) => file.includes('metrics'))) {
      const { placePromtool } = await import('./promtool.ts')
      await placePromtool()
    }
    if (rebooting.length > 0) {
      // A test has no network, so what it installs is fetched before.
      const { ensureQemuVersions } = await import('../lab/qemu-versions.ts')
      await ensureQemuVersions()
    }
    return addCounts([
      await runInLabs(inside, labs),
      await runBesideLab(beside),
      await runBesideLab(rebooting),
      await runBesideTwoLabs(besideTwo),
    ])
  } catch (error) {
    if (!(error instanceof StepFailed)) console.error(error)
    return { ...NOTHING, failed: files.length }
  }
}

/** Turns a test into a failure if it was skipped in CI for lack of root or the lab. */
function judge(counts: Counts): Counts {
  if (!inCi) return counts
  const wanting = counts.skipped.filter(({ why }) => /\b(root|lab)\b/i.test(why))
  const skipped = counts.skipped.filter((skip) => !wanting.includes(skip))
  const failures = wanting.map((skip) => ({ ...skip, why: `skipped in CI: ${skip.why}` }))
  return {
    ...{ passed: counts.passed, failed: counts.failed + wanting.length },
    ...{ failures: [...counts.failures, ...failures], skipped },
  }
}

/** Runs `./dev test`. Returns the exit status. */
export async function main(args: readonly string[]): Promise<number> {
  if (args.includes('--help')) {
    process.stdout.write(HELP)
    return 0
  }
  const { values, positionals: words } = parseArgs({
    args: [...args],
    options: { labs: { type: 'string', default: String(LABS) } },
    allowPositionals: true,
  })
  const labs = Number(values.labs)
  // A run with such a number of labs, or such a word alone, would pass and test nothing.
  if (!Number.isInteger(labs) || labs < 1) {
    console.error(`dev test: --labs ${values.labs} is not a number of labs`)
    return 2
  }
  const empty = words.filter((word) => testFilesOf([word]).length === 0)
  if (empty.length > 0) {
    console.error(`dev test: no test file has ${empty.join(' or ')} in its path`)
    return 2
  }
  const startedAt = performance.now()
  await ensureClientTypes()
  await ensureBrowser(words)
  await ensureBuild(words)
  const all = [
    ...(words.length === 0 ? [await runStatic()] : []),
    await runHere(testFiles([...FAST_TESTS, ...SLOW_TESTS, ...BROWSER_TESTS], words)),
    await hostTests(words, labs),
  ]
  return conclude(judge(addCounts(all)), startedAt)
}
