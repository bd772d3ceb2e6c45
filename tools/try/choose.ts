/* Chooses which of the reached tests run now, by what they cost, and which are left for `./dev test`. */
import { readDurations } from '../durations.ts'
import { testFiles } from '../run-tests.ts'
import { APART, LEFT } from './apart.ts'
import { reachedTests, readUsers } from './reach.ts'
import type { Durations, Isolation } from '../durations.ts'
import type { Reached, Users } from './reach.ts'

/** Bounds of the expected time of all tests of one run, and how near a test must be for the larger one. */
export type Budget = { readonly nearMs: number; readonly farMs: number; readonly near: number }

/**
 * Almost every file is a part of the whole daemon, which most slow tests start. So a test that is further away runs
 * only if the answer still comes in seconds.
 */
export const BUDGET: Budget = { nearMs: 45_000, farMs: 4000, near: 2 }

/** Expected milliseconds of a file that has not been measured here. */
const UNKNOWN_MS = { together: 150, daemon: 2000, alone: 2000 }

/** Their tests start a daemon or a program: some take half a minute. */
const WITH_DAEMON = /^(test\/(daemon|ctl)|src\/daemon)\//

export type Choice = {
  /** Files that share one process. */
  readonly together: readonly string[]
  /** Files in processes of their own. */
  readonly alone: readonly string[]
  /** Files that this run has no time for, or that are never run. */
  readonly left: readonly string[]
  /** Expected time of all tests that run. */
  readonly costMs: number
}

export type Known = Readonly<Record<Isolation, Durations>>

const isolationOf = (file: string): Isolation => (Object.hasOwn(APART, file) ? 'alone' : 'together')

const costOf = (file: string, known: Known): number => {
  const isolation = isolationOf(file)
  return known[isolation][file] ?? UNKNOWN_MS[WITH_DAEMON.test(file) ? 'daemon' : isolation]
}

/** Takes the nearest tests until the budget is used; cheaper ones behind one that does not fit still run. */
export function choose(reached: readonly Reached[], known: Known, budget: Budget): Choice {
  const ordered = reached.toSorted(
    (a, b) => a.distance - b.distance || costOf(a.file, known) - costOf(b.file, known),
  )
  const chosen: string[] = []
  const left: string[] = []
  let costMs = 0
  for (const { file, distance } of ordered) {
    const cost = costOf(file, known)
    const boundMs = distance <= budget.near ? budget.nearMs : budget.farMs
    if (LEFT.test(file) || costMs + cost > boundMs) left.push(file)
    else {
      chosen.push(file)
      costMs += cost
    }
  }
  const inMode = (mode: Isolation): string[] => chosen.filter((file) => isolationOf(file) === mode)
  return { together: inMode('together'), alone: inMode('alone'), left, costMs }
}

/** The sources, tests and durations that a choice depends on, apart from the change. */
export type Project = { readonly users: Users; readonly tests: readonly string[]; readonly known: Known }

/** Reads the sources and the durations of the last runs. */
export const readProject = (): Project => ({
  users: readUsers(),
  tests: testFiles(['{src,test,tools,lab,bench}/**/*.test.ts']),
  known: { alone: readDurations('alone'), together: readDurations('together') },
})

/** Returns the tests that a change reaches: those to run now, and those to leave. */
export const planFor = (changed: readonly string[], project: Project): Choice =>
  choose(reachedTests(changed, project), project.known, BUDGET)
