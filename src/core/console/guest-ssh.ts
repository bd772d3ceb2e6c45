/** The verdict on a guest's SSH host key: `known` as it is, `new` and to be pinned, or `changed` and refused. */
export type HostKeyJudgement = 'known' | 'new' | 'changed'

/** Judges fingerprints: the key that the guest shows, the pinned key, and the only key that the viewer accepts. */
export function judgeHostKey(keys: {
  readonly offered: string
  readonly pinned: string | undefined
  readonly accepted: string | undefined
}): HostKeyJudgement {
  const { offered, pinned, accepted } = keys
  if (offered !== (accepted ?? pinned ?? offered)) return 'changed'
  return offered === pinned ? 'known' : 'new'
}

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
