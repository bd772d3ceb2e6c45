import { commands } from '../../src/ctl/commands.ts'
import { EVENT_KINDS } from '../../src/core/events/event.ts'
import { allMetrics } from '../../src/core/metrics/catalogue.ts'
import { faults, rejections } from '../../src/core/problems/catalogue.ts'
import { exitStatus } from '../../src/ctl/exit-status.ts'
import { commandHelps } from '../../src/daemon/help/overview.ts'

/** Names that programs and files of users have in them, by subject. */
export type Names = Readonly<Record<string, readonly string[]>>

/** Returns all names of today that the promise is about and that no OpenAPI document has. */
export const namesOfToday = (): Names => ({
  'error code': [...Object.keys(rejections), ...Object.keys(faults)].toSorted(),
  event: EVENT_KINDS.toSorted(),
  metric: allMetrics.flatMap(({ name, kind, labels }) => [
    `${name} (${kind})`,
    ...labels.map((label) => `${name}{${label}}`),
  ]),
  command: commands.flatMap(({ words, options }) => {
    const call = ['vmhostctl', ...words].join(' ')
    return [call, ...options.map(({ name }) => `${call} --${name}`)]
  }),
  'command of the host': commandHelps.map(({ name }) => `vmhostd ${name}`),
  'exit status': Object.entries(exitStatus).map(([name, status]) => `vmhostctl ${status} (${name})`),
})

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
      .filter((name) => today[subject]?.includes(name) !== true)
      .map((name) => `the ${subject} ${name} is gone`),
  )
