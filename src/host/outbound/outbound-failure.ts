/**
 * Says why a request got no answer: the policy of this host forbids the address (`not_allowed`), one side does not
 * accept the certificate of the other (`untrusted`), or the host did not answer. The message is in plain words. It
 * contains only the host's name of the URL, and only the codes of Node's errors,
 * because their messages and properties may contain anything.
 */
export class OutboundFailure extends Error {
  override readonly name = 'OutboundFailure'
  readonly kind: 'not_allowed' | 'untrusted' | 'unreachable'

  constructor(kind: OutboundFailure['kind'], message: string) {
    super(message)
    this.kind = kind
  }
}

/** `client`: this host asks a server anonymously. `node`: it shows its node certificate to another host. */
export type Role = 'client' | 'node'

/**
 * Says why a host gave no answer, and what to do about it.
 *
 * @param host its name as in the URL, with the port if there is one
 */
export function unanswered(error: unknown, host: string, role: Role = 'client'): OutboundFailure {
  const code = codeOf(error)
  const certificate = certificateWords(code, host, role)
  const kind = certificate === undefined ? 'unreachable' : 'untrusted'
  return new OutboundFailure(kind, `${certificate ?? wordsOf(code, host, role)} (${code})`)
}

/** Says that the certificate of a node is revoked, or an authority above it. */
export const revoked = (host: string): OutboundFailure =>
  new OutboundFailure(
    'untrusted',
    `the certificate of ${host} is revoked; coordination.revocation_file names it, or an authority above it`,
  )

/**
 * Returns the words for an OpenSSL verification result (X509_STORE_CTX_get_error(3)) or an alert about our certificate.
 */
function certificateWords(code: string, host: string, role: Role): string | undefined {
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return `the certificate of ${host} has expired, or the clock of this host is ahead`
    case 'CERT_NOT_YET_VALID':
      return `the certificate of ${host} is not valid yet, or the clock of this host is behind`
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `the certificate of ${host} is for another name; check the URL`
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
      return `no authority that the daemon trusts signed the certificate of ${host}; ${AUTHORITIES[role]}`
    case 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED':
    case 'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA':
    case 'ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE':
    case 'ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_EXPIRED':
    case 'ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_UNKNOWN':
      return `${host} does not accept the certificate of this host; ${AUTHORITIES[role]}`
    default:
      return undefined
  }
}

const AUTHORITIES: Readonly<Record<Role, string>> = {
  client: 'object_store.extra_ca_file names further ones',
  node: 'coordination.ca_file of each host must name the authority of the other',
}

/** Returns the words for an errno (errno(3), getaddrinfo(3)). */
function wordsOf(code: string, host: string, role: Role): string {
  switch (code) {
    case 'ENOTFOUND':
      return `the name ${host} has no address; check the URL, and DNS on this host`
    case 'EAI_AGAIN':
      return `DNS gave no answer for ${host}; check DNS on this host`
    case 'ECONNREFUSED':
      return `nothing listens at ${host}; check the URL, and whether that server runs`
    case 'ECONNRESET':
    case 'EPIPE':
      // In TLS 1.3 a server refuses a certificate after our side is ready (RFC 8446, 4.4.2.4),
      // and Node's sends no alert.
      return role === 'client'
        ? `${host} closed the connection`
        : `${host} closed the connection; if it always does, it does not accept the certificate of this host`
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'ETIMEDOUT':
      return `there is no way to ${host}; check routes and firewall of this host`
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
  return typeof code === 'string' && /^[A-Z0-9_/]{1,64}$/.test(code) ? code : 'no error code'
}
