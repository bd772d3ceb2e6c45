import { unreachable } from '../lib/assert.ts'
import { given } from '../lib/given.ts'

/**
 * Why no answer came.
 *
 * - `unresolved`: the host name of the URL has no address
 * - `refused`: no process listens there
 * - `unreachable`: there is no route to the host, or it does not respond
 * - `untrusted`: its certificate is not signed by our authority
 * - `wrong_use`: its certificate is not for a server
 * - `wrong_name`: its certificate is for other names than the one in the URL
 * - `expired`: its certificate has expired, or is not valid yet
 * - `unwelcome`: it does not accept our certificate
 * - `dropped`: it ended the connection before its answer: it restarted, or does not accept our certificate
 * - `not_tls`: the server there does not speak TLS 1.3
 * - `late`: connected, but the answer did not come in time
 * - `broken`: the connection ended before the answer did
 */
export type FailureKind =
  | 'unresolved'
  | 'refused'
  | 'unreachable'
  | 'untrusted'
  | 'wrong_use'
  | 'wrong_name'
  | 'expired'
  | 'unwelcome'
  | 'dropped'
  | 'not_tls'
  | 'late'
  | 'broken'

/** No answer came from the daemon. The message says what is wrong, and `kind` says what may be done about it. */
export class ConnectionFailed extends Error {
  override readonly name = 'ConnectionFailed'
  readonly kind: FailureKind

  constructor(kind: FailureKind, message: string, cause?: unknown) {
    super(message, given({ cause }))
    this.kind = kind
  }
}

/**
 * Failures during a restart of the daemon; any other means that another server answers there, or needs a certificate.
 */
const PASSING: ReadonlySet<FailureKind> = new Set([
  'unresolved',
  'refused',
  'unreachable',
  'unwelcome',
  'dropped',
  'late',
  'broken',
])

/** Returns whether another attempt may succeed without anything being changed. */
export const mayPass = ({ kind }: ConnectionFailed): boolean => PASSING.has(kind)

/**
 * Kinds by errno (errno(3), getaddrinfo(3)), OpenSSL's verification result (X509_STORE_CTX_get_error(3)) and TLS alert.
 */
const KINDS: ReadonlyMap<string, FailureKind> = new Map([
  ['ENOTFOUND', 'unresolved'],
  ['EAI_AGAIN', 'unresolved'],
  ['ECONNREFUSED', 'refused'],
  ['EHOSTUNREACH', 'unreachable'],
  ['ENETUNREACH', 'unreachable'],
  ['ETIMEDOUT', 'unreachable'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'untrusted'],
  ['UNABLE_TO_GET_ISSUER_CERT', 'untrusted'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'untrusted'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'untrusted'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'untrusted'],
  ['CERT_SIGNATURE_FAILURE', 'untrusted'],
  ['INVALID_PURPOSE', 'wrong_use'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'wrong_name'],
  ['CERT_HAS_EXPIRED', 'expired'],
  ['CERT_NOT_YET_VALID', 'expired'],
  ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'unwelcome'],
  ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'unwelcome'],
  ['ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE', 'unwelcome'],
  ['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_EXPIRED', 'unwelcome'],
  ['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_UNKNOWN', 'unwelcome'],
  ['ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE', 'unwelcome'],
  ['ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED', 'unwelcome'],
  ['ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN', 'unwelcome'],
  // The other side answered the handshake with something else.
  ['EPROTO', 'not_tls'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'not_tls'],
  ['ERR_SSL_PACKET_LENGTH_TOO_LONG', 'not_tls'],
  ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'not_tls'],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', 'not_tls'],
])

export type Attempt = {
  /** `host:port` of the URL. */
  readonly peer: string
  /** Whether our side had finished the handshake and no byte of an answer had come. */
  readonly silentAfterHandshake: boolean
}

/** Converts the error of a request to {@link ConnectionFailed}. */
export function connectionFailed(error: unknown, { peer, silentAfterHandshake }: Attempt): ConnectionFailed {
  const kind = kindOf(error, silentAfterHandshake)
  // Several addresses were tried; the error of the first stands for all.
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error
  return new ConnectionFailed(kind, sentence(kind, peer), cause)
}

/**
 * Returns the kind of an error. In TLS 1.3 (RFC 8446, 4.4.2.4) the server may check our certificate after our side has
 * finished the handshake; Node's server then closes without an alert. So an end before the first byte of an answer may
 * mean a refused certificate, and may mean a restart.
 */
function kindOf(error: unknown, silentAfterHandshake: boolean): FailureKind {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
  const known = typeof code === 'string' ? KINDS.get(code) : undefined
  if (known !== undefined) return known
  return silentAfterHandshake && (code === 'ECONNRESET' || code === 'EPIPE') ? 'dropped' : 'broken'
}

function sentence(kind: FailureKind, peer: string): string {
  switch (kind) {
    case 'unresolved':
      return `the name in ${peer} has no address`
    case 'refused':
      return `nothing listens at ${peer}`
    case 'unreachable':
      return `there is no way to ${peer}`
    case 'untrusted':
      return `the certificate of ${peer} is not signed by our authority`
    case 'wrong_use':
      return `the certificate of ${peer} is not for a server`
    case 'wrong_name':
      return `the certificate of ${peer} is for another name`
    case 'expired':
      return `the certificate of ${peer} is not valid now`
    case 'unwelcome':
      return `${peer} does not accept our certificate`
    case 'dropped':
      return `${peer} ended the connection before its answer: it restarted, or does not accept our certificate`
    case 'not_tls':
      return `what listens at ${peer} does not speak TLS 1.3`
    case 'late':
      return `${peer} did not answer in time`
    case 'broken':
      return `the connection to ${peer} ended before the answer`
    default:
      return unreachable(kind)
  }
}
