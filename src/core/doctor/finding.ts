/**
 * The result of one check. `must`: the daemon or its guests cannot work, or not within their limits,
 * before this is done.
 */
export type Finding = {
  /** A short name of the subject, e.g. `kernel`. */
  readonly check: string
  readonly level: 'ok' | 'should' | 'must'
  readonly found: string
  /** The remedy; absent if nothing is to be done. */
  readonly remedy?: string
}
