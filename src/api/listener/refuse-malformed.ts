import type { IncomingMessage } from 'node:http'
import type { Rejection } from '../../core/errors.ts'

/**
 * Returns what HTTP/1.1 forbids in the headers of a request; undefined if it is valid. Node would answer such a request
 * by itself, before anything asks who sent it.
 */
export function refuseMalformed({ httpVersion, headers }: IncomingMessage): Rejection | undefined {
  if (httpVersion !== '1.1') return undefined
  if (headers.host === undefined) return malformed('an HTTP/1.1 request has a Host header')
  if (headers.expect !== undefined && !isContinue(headers.expect))
    return malformed('an Expect header has 100-continue alone')
  return undefined
}

/** The only expectation that HTTP defines (RFC 9110, section 10.1.1). */
const isContinue = (expect: string): boolean =>
  expect.split(',').every((one) => one.trim().toLowerCase() === '100-continue')

const malformed = (detail: string): Rejection => ({ code: 'invalid_request', detail })
