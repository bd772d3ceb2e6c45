import { EVENT_KINDS } from '../../src/core/events/event.ts'
import { allMetrics } from '../../src/core/metrics/catalogue.ts'
import { faults, rejections, retryAfterSeconds } from '../../src/core/problems/catalogue.ts'
import { exitStatus } from '../../src/ctl/exit-status.ts'
import { ANY, clientCommandNames, hostCommandNames } from './command-names.ts'
import type { Finding } from '../../src/core/doctor/finding.ts'
import type { ProblemCode } from '../../src/core/errors.ts'

/** Names that programs and files of users have in them, by subject. */
export type Names = Readonly<Record<string, readonly string[]>>

/** The members of a finding of `doctor --json`. The type of a finding makes this list complete. */
const FINDING = { check: true, level: true, found: true, remedy: true } satisfies Record<keyof Finding, true>

/** Returns all names of today that the promise is about and that no OpenAPI document has. */
export const namesOfToday = (): Names => ({
  'error code': [
    ...Object.entries(rejections).map(([code, { status }]) => nameOfCode(code as ProblemCode, status)),
    // A fault of the host is answered with 503.
    ...Object.keys(faults).map((code) => nameOfCode(code as ProblemCode, 503)),
  ].toSorted(),
  event: EVENT_KINDS.toSorted(),
  metric: allMetrics.map(({ name, kind, labels }) => `${name}{${labels.join(', ')}} (${kind})`),
  command: clientCommandNames(),
  'command of the host': hostCommandNames(),
  'member of a finding': Object.keys(FINDING),
  'exit status': Object.entries(exitStatus).map(([name, status]) => `vmhostctl ${status} (${name})`),
})

/** Returns a code with what a client decides by: its status, and whether to try again. */
const nameOfCode = (code: ProblemCode, status: number): string =>
  `${code} (${status}${retryAfterSeconds(code) === undefined ? '' : ', retryable'})`

/** Returns the names that are gone, one sentence each. */
export const compareNames = ({
  published,
  today,
}: {
  readonly published: Names
  readonly today: Names
}): string[] =>
  Object.entries(published).flatMap(([subject, names]) =>
    names
      .filter((name) => !isKept(name, today[subject] ?? []))
      .map((name) => `the ${subject} ${name} is gone`),
  )

/** Returns whether a name is there, or the same call with any value in place of its last word. */
const isKept = (name: string, names: readonly string[]): boolean =>
  names.includes(name) || names.includes(name.replace(/ (?!--)[^ …]+(…?)$/, ` ${ANY}$1`))
