/**
 * Why a request got no answer: this host may not speak to where it goes (`not_allowed`), or nobody answered. The message is
 * in plain words and has nothing of the URL but the host's name, and of Node's errors only their codes: their messages and
 * properties are not ours to vouch for.
 */
export class OutboundFailure extends Error {
  override readonly name = 'OutboundFailure'
  readonly kind: 'not_allowed' | 'unreachable'

  constructor(kind: OutboundFailure['kind'], message: string) {
    super(message)
    this.kind = kind
  }
}

/** E.g. ECONNREFUSED, ENOTFOUND, CERT_HAS_EXPIRED; an `AggregateError` of many addresses has the first one's. */
export function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' && /^[A-Z0-9_]{1,64}$/.test(code) ? code : 'it failed'
}
