import type { IncomingMessage } from 'node:http'
import type { Rejection } from '../../core/errors.ts'

/**
 * Returns what HTTP/1.1 forbids in the headers of a request; undefined if it is valid. Node would answer such a request
 * by itself, before anything asks who sent it.
 */
export function refuseMalformed(request: IncomingMessage): Rejection | undefined {
  const { httpVersion, headers } = request
  if (httpVersion !== '1.1') return undefined
  if (!hasOneHost(request)) return malformed('an HTTP/1.1 request has one Host header')
  if (headers.expect !== undefined && !isContinue(headers.expect))
    return malformed('an Expect header has 100-continue alone')
  return undefined
}

/**
 * Returns whether a request has exactly one Host header (RFC 9112, section 3.2). Of several, Node would show the first,
 * and a proxy may have read another.
 */
export const hasOneHost = ({ rawHeaders }: IncomingMessage): boolean =>
  rawHeaders.filter((text, index) => index % 2 === 0 && text.toLowerCase() === 'host').length === 1

/** The only expectation that HTTP defines (RFC 9110, section 10.1.1). */
const isContinue = (expect: string): boolean =>
  expect.split(',').every((one) => one.trim().toLowerCase() === '100-continue')

const malformed = (detail: string): Rejection => ({ code: 'invalid_request', detail })
