/** The reason why there is no shell. `host_key_refused`: `acceptHostKey` returned false. */
export type SshFailure = {
  readonly kind:
    | 'host_key_refused'
    | 'no_route'
    | 'refused'
    | 'timed_out'
    | 'key_refused'
    | 'shell_refused'
    | 'failed'
  /** In words, the whole cause chain in one line. */
  readonly detail: string
}
