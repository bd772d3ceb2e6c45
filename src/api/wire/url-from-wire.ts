import { limits } from '../../config/limits.ts'
import type { Complaint } from '../../lib/schema-check.ts'

/** Returns what is wrong with a URL beyond what the schema checks. */
export function urlComplaints(pointer: string, url: string): Complaint[] {
  const complain = (detail: string): Complaint[] => [{ pointer, code: 'malformed', detail }]
  const parsed = URL.parse(url)
  if (parsed === null) return complain('must be a valid URL')
  // fetch() would refuse such a URL hours later, with a different error.
  if (parsed.username !== '' || parsed.password !== '')
    return complain('must not carry a user name or password')
  if (parsed.hostname.length > limits.urlHostCharactersMax)
    return complain(`must name a host of at most ${limits.urlHostCharactersMax} characters`)
  return textComplaints(pointer, url, limits.urlBytesMax)
}

/**
 * Returns what is wrong with a text beyond what the schema checks. That is half a surrogate pair, which has no UTF-8
 * form and no portable pattern, and the length in bytes: the schema counts characters.
 */
export function textComplaints(pointer: string, text: string, bytesMax: number): Complaint[] {
  if (!text.isWellFormed())
    return [{ pointer, code: 'malformed', detail: 'must be text that has a UTF-8 form' }]
  if (Buffer.byteLength(text) <= bytesMax) return []
  return [{ pointer, code: 'wrong_length', detail: `must have at most ${bytesMax} bytes as UTF-8` }]
}
