/**
 * Says why a request got no answer: the policy of this host forbids the address (`not_allowed`), or the host did not
 * answer. The message is in plain words. It contains only the host's name of the URL, and only the codes of Node's
 * errors, because their messages and properties may contain anything.
 */
export class OutboundFailure extends Error {
  override readonly name = 'OutboundFailure'
  readonly kind: 'not_allowed' | 'unreachable'

  constructor(kind: OutboundFailure['kind'], message: string) {
    super(message)
    this.kind = kind
  }
}

/**
 * Says why a host gave no answer, and what to do about it.
 *
 * @param host its name as in the URL, with the port if there is one
 */
export function unanswered(error: unknown, host: string): OutboundFailure {
  const code = codeOf(error)
  return new OutboundFailure('unreachable', `${wordsOf(code, host)} (${code})`)
}

/**
 * Returns the words for an errno (errno(3), getaddrinfo(3)) or an OpenSSL verification result
 * (X509_STORE_CTX_get_error(3)).
 */
function wordsOf(code: string, host: string): string {
  switch (code) {
    case 'ENOTFOUND':
      return `the name ${host} has no address; check the URL, and DNS on this host`
    case 'EAI_AGAIN':
      return `DNS gave no answer for ${host}; check DNS on this host`
    case 'ECONNREFUSED':
      return `nothing listens at ${host}; check the URL, and whether that server runs`
    case 'ECONNRESET':
    case 'EPIPE':
      return `${host} closed the connection`
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'ETIMEDOUT':
      return `there is no way to ${host}; check routes and firewall of this host`
    case 'CERT_HAS_EXPIRED':
    case 'CERT_NOT_YET_VALID':
      return `the certificate of ${host} is not valid now; check the clock of this host`
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `the certificate of ${host} is for another name; check the URL`
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
      return `no authority that the daemon trusts signed the certificate of ${host}; object_store.extra_ca_file names further ones`
    default:
      if (code.startsWith('HPE_')) return `what answers at ${host} does not speak HTTP`
      if (code === 'EPROTO' || code.startsWith('ERR_SSL_')) return `${host} does not speak TLS as it should`
      return `${host} gave no answer`
  }
}

/**
 * Returns an error's code, e.g. ECONNREFUSED, ENOTFOUND, CERT_HAS_EXPIRED. An `AggregateError` of many addresses has
 * the code of the first one.
 */
export function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' && /^[A-Z0-9_]{1,64}$/.test(code) ? code : 'no error code'
}
