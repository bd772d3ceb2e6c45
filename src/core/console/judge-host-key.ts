/** What becomes of a guest's SSH host key: `known` as it is, `new` and to be pinned, or `changed` and refused. */
export type HostKeyJudgement = 'known' | 'new' | 'changed'

/** Fingerprints of the key that the guest shows, the one that is pinned, and the one that the viewer accepts; it accepts no other. */
export function judgeHostKey(keys: {
  readonly offered: string
  readonly pinned: string | undefined
  readonly accepted: string | undefined
}): HostKeyJudgement {
  const { offered, pinned, accepted } = keys
  if (offered !== (accepted ?? pinned ?? offered)) return 'changed'
  return offered === pinned ? 'known' : 'new'
}
