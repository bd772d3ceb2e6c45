import type { Status } from './status.ts'

/** Everything that the title of the page depends on. */
export type Titled = {
  readonly status: Status
  /** Id of the host; undefined until it is known. */
  readonly host: string | undefined
  /** Number of VMs with an error. */
  readonly failing: number
}

/** Returns the title of the page: in a tab, all that a reader sees of the host. */
export const titleOf = (titled: Titled): string =>
  [titled.host, attentionOf(titled), 'vmhostd'].filter((part) => part !== undefined).join(' · ')

/** While the daemon does not answer, the number of errors may be out of date. */
function attentionOf({ status, failing }: Titled): string | undefined {
  if (status.kind === 'away') return 'no answer'
  return failing === 0 ? undefined : `${failing} with an error`
}
