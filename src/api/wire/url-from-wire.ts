import { limits } from '../../config/limits.ts'
import type { Complaint } from '../../lib/schema-check.ts'

/** What the schema could not see to be wrong with a URL. */
export function urlComplaints(pointer: string, url: string): Complaint[] {
  const complain = (detail: string): Complaint[] => [{ pointer, code: 'malformed', detail }]
  const parsed = URL.parse(url)
  if (parsed === null) return complain('must be a valid URL')
  // fetch() refuses such a URL, hours later and in other words.
  if (parsed.username !== '' || parsed.password !== '')
    return complain('must not carry a user name or password')
  if (parsed.hostname.length > limits.urlHostCharactersMax)
    return complain(`must name a host of at most ${limits.urlHostCharactersMax} characters`)
  return textComplaints(pointer, url, limits.urlBytesMax)
}

/**
 * What the schema could not see to be wrong with any text: half a surrogate pair, which has no UTF-8 form and no portable
 * pattern, and its length in bytes, where the schema counts characters.
 */
export function textComplaints(pointer: string, text: string, bytesMax: number): Complaint[] {
  if (!text.isWellFormed())
    return [{ pointer, code: 'malformed', detail: 'must be text that has a UTF-8 form' }]
  if (Buffer.byteLength(text) <= bytesMax) return []
  return [{ pointer, code: 'wrong_length', detail: `must have at most ${bytesMax} bytes as UTF-8` }]
}
