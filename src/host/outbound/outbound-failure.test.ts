import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unanswered } from './outbound-failure.ts'

test('a failure between two hosts says which certificate is wrong, and where it is configured', () => {
  for (const [code, kind, words] of [
    [
      'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
      'untrusted',
      /does not accept the certificate of this host; coordination\.ca_file/,
    ],
    ['ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE', 'untrusted', /does not accept the certificate of this host/],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'untrusted', /no authority .* signed .* coordination\.ca_file/],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'untrusted', /is for another name; check the URL/],
    ['ECONNRESET', 'unreachable', /closed the connection; if it always does, it does not accept/],
    ['ECONNREFUSED', 'unreachable', /nothing listens at host-1:9001/],
  ] as const) {
    const failure = unanswered({ code }, 'host-1:9001', 'node')
    assert.match(failure.message, words)
    assert.ok(failure.message.endsWith(`(${code})`), failure.message)
    assert.equal(failure.kind, kind, code)
  }
})

test('a server that is asked without a certificate is not said to refuse one', () => {
  assert.equal(
    unanswered({ code: 'EPIPE' }, 'store', 'client').message,
    'store closed the connection (EPIPE)',
  )
})
