/* `./dev try`: checks what a change touches, and names what it leaves for `./dev test`. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { conclude, runStatic, textChecks, TYPE_CHECKS } from './check.ts'
import { ensureClientTypes } from './client-types.ts'
import { checkout } from './paths.ts'
import { addCounts, runBounded } from './run-tests.ts'
import { StepFailed } from './step.ts'
import { changedSince, namedByCaller } from './try/changed-files.ts'
import { BUDGET, planFor, readProject } from './try/choose.ts'
import { leftLines, missedOf } from './try/left.ts'
import { measure } from './try/measure.ts'
import { watchSources } from './try/watch-sources.ts'
import type { Counts } from './counts-reporter.ts'

const HELP = `./dev try [FILE…] [--since COMMIT] [--watch]   checks what a change touches, in seconds

Runs the type check, lint and format of the changed files, and the tests that load them. Tests at most ${BUDGET.near} imports away
run first, for about ${BUDGET.nearMs / 1000} s at most; those further away run if all tests still take about ${BUDGET.farMs / 1000} s. Names the tests that
it left, with the command that runs them if they are few. Status 1 means that something failed, or that a changed test
file was not run.

  FILE…            take these files as changed; otherwise those that differ from the last commit
  --since COMMIT   take the files that differ from COMMIT, for example main
  --watch          wait for changes of the sources, and check again after each
  --measure        what one changed file would cost, for every source file, and ten files measured

A test counts as reached if it imports a changed file, directly or through others, or names it in a string. Imports of
types do not count: the type check covers them. Tests of hosts, browsers, the package and simulations are always left,
also if they are changed.
`

/** Time after which tests are ended on a machine that is too busy; what is not done is left. */
const BOUND_MS = 55_000
const TEST_BOUND_MS = 30_000

async function staticChecks(changed: readonly string[]): Promise<Counts> {
  const sources = changed.filter((file) => file.endsWith('.ts') && existsSync(path.join(checkout, file)))
  try {
    await ensureClientTypes()
  } catch (error) {
    // The API does not load. The checks of its types are more helpful than that.
    if (!(error instanceof StepFailed)) throw error
  }
  return runStatic([...TYPE_CHECKS, ...(sources.length === 0 ? [] : textChecks(sources))])
}

/** Checks a change. Returns the exit status. */
async function tryChange(changed: readonly string[]): Promise<number> {
  const startedAt = performance.now()
  if (changed.length === 0) {
    console.log('nothing has changed since the last commit; name files, or a commit with --since')
    return 0
  }
  const project = readProject()
  const { together, alone, left } = planFor(changed, project)
  console.log(
    `${changed.length} changed files reach ${together.length + alone.length + left.length} test files`,
  )
  const bounds = { boundMs: BOUND_MS, testBoundMs: TEST_BOUND_MS }
  const [checks, ...runs] = await Promise.all([
    staticChecks(changed),
    runBounded(together, { isolation: 'together', ...bounds }),
    runBounded(alone, { isolation: 'alone', ...bounds }),
  ])
  const unfinished = runs.flatMap((run) => run.unfinished)
  const all = [...unfinished, ...left]
  const missed = missedOf(changed, all)
  for (const line of leftLines(all, project.tests)) console.log(line)
  if (unfinished.length > 0)
    console.log(`ended after ${BOUND_MS / 1000} s: ${unfinished.length} test files are not done`)
  // The failures come last.
  return conclude(addCounts([missed, checks, ...runs.map((run) => run.counts)]), startedAt)
}

/** Runs `./dev try`. Returns the exit status. */
export async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: {
      since: { type: 'string', default: 'HEAD' },
      watch: { type: 'boolean', default: false },
      measure: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
    allowPositionals: true,
  })
  if (values.help) {
    process.stdout.write(HELP)
    return 0
  }
  if (values.measure) return measure()
  const changed = async () =>
    positionals.length > 0 ? namedByCaller(positionals) : changedSince(values.since)
  if (!values.watch) return tryChange(await changed())
  return watchSources(async () => tryChange(await changed()))
}
