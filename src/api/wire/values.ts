/** Single values on the wire: their patterns, what a pattern cannot check, times, cursors and texts. */
import { limits } from '../../config/limits.ts'
import { MAC_ADDRESS_PATTERN, SHA256_PATTERN, VM_ID_PATTERN, parseSha256, parseVmId } from '../../core/ids.ts'
import { NODE_NAME_PATTERN } from '../../core/migration/offer.ts'
import { Type } from 'typebox'
import { Format } from 'typebox/format'
import { withoutHostPaths, scrub } from '../../log/scrub.ts'
import type { Complaint } from '../../lib/schema-check.ts'

/** Printable ASCII, the characters of a kernel command line. */
export const KERNEL_ARGUMENTS_PATTERN = '^[\\x20-\\x7e]*$'
/**
 * One line of an authorized_keys file (sshd(8)): options, type, key and comment. The key begins with the length of its
 * type, so its Base64 begins with `AAAA`.
 */
export const SSH_KEY_PATTERN =
  '^([^\\x00-\\x1f\\x7f]+ )?(ssh|ecdsa|sk)-[A-Za-z0-9@.-]+ +AAAA[A-Za-z0-9+/]*=*( [^\\x00-\\x1f\\x7f]*)?$'
/** One line of text, without control characters. */
export const ONE_LINE_PATTERN = '^[^\\x00-\\x1f\\x7f]+$'
export const URL_PATTERN = '^(https?|file)://[^\\x00-\\x20\\x7f]+$'
/** URL of an object store. */
export const STORE_URL_PATTERN = '^https?://[^\\x00-\\x20\\x7f]+$'
/** Path and query of a request (RFC 9112, origin-form), in ASCII. */
export const HTTP_PATH_PATTERN = '^/[\\x21-\\x7e]*$'
/** Only the form; `parseNetwork` checks the meaning. */
export const CIDR_PATTERN = '^[0-9A-Fa-f:.]+/[0-9]{1,3}$'
export const PORTS_PATTERN = '^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?$'
/**
 * Label keys as in other orchestrators (kubernetes.io, "Labels and Selectors"), but without a separate length for the
 * prefix.
 */
export const LABEL_KEY_PATTERN = '^[A-Za-z0-9]([A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?$'
export const LABEL_VALUE_PATTERN = '^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$'
const LABEL = '[A-Za-z0-9._/-]{1,128}=[A-Za-z0-9._-]{0,63}'
export const LABEL_QUERY_PATTERN = `^${LABEL}(,${LABEL})*$`
export const CURSOR_PATTERN = '^[A-Za-z0-9_-]{1,128}$'
/** Number of an event, as the id of a message. */
export const SEQUENCE_PATTERN = '^[0-9]{1,16}$'
const SEQUENCE = new RegExp(SEQUENCE_PATTERN)
/** Id of a console session. */
export const SESSION_PATTERN = '^[0-9a-f]{16}$'
/** Name of an attempt to take a VM; it becomes a name in the pools of both hosts. */
export const ARRIVAL_PATTERN = '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$'
/** Name of a user in a guest, as useradd(8) accepts them. */
export const GUEST_USER_PATTERN = `^[a-z_][a-z0-9_-]{0,${limits.sshUserBytesMax - 1}}$`
/** Fingerprint of an SSH host key, as OpenSSH prints it (ssh-keygen(1), `-l`). */
export const FINGERPRINT_PATTERN = '^SHA256:[A-Za-z0-9+/]{43}$'

const ETAG = '(W/)?"[\\x21\\x23-\\x7e\\x80-\\xff]*"'
/** `*`, or a list of ETags, in which items may be empty (RFC 9110, 8.8.3 and 5.6.1.2). */
export const ETAGS_PATTERN = `^(\\*|[\\x09 ,]*${ETAG}([\\x09 ]*(,[\\x09 ]*)+${ETAG})*[\\x09 ,]*)$`

/** The form that a pattern requires, in words. */
export const patternWords: ReadonlyMap<string, string> = new Map([
  // Snapshots have ids of the same form.
  [VM_ID_PATTERN, 'must be 1 to 63 lower-case letters, digits and inner hyphens'],
  [SHA256_PATTERN, 'must be a SHA-256 digest: 64 lower-case hexadecimal digits'],
  [MAC_ADDRESS_PATTERN, 'must be a unicast MAC address in lower case, as in 02:00:5e:10:00:01'],
  [KERNEL_ARGUMENTS_PATTERN, 'must be printable ASCII on one line'],
  [SSH_KEY_PATTERN, 'must be a public SSH key on one line, as in a file that ends in .pub'],
  [ONE_LINE_PATTERN, 'must be one line of text, without control characters'],
  [URL_PATTERN, 'must be an https:, http: or file: URL'],
  [HTTP_PATH_PATTERN, 'must be a path that begins with a slash, in printable ASCII without spaces'],
  [STORE_URL_PATTERN, 'must be an https: or http: URL'],
  [CIDR_PATTERN, 'must be a network in CIDR form, e.g. 192.0.2.0/24'],
  [PORTS_PATTERN, 'must be a port or a range of ports, e.g. "443" or "8000-8100"'],
  [
    LABEL_KEY_PATTERN,
    'must have a key of 1 to 128 ASCII letters, digits, inner dots, hyphens, underscores and slashes',
  ],
  [
    LABEL_VALUE_PATTERN,
    'must have a value of at most 63 ASCII letters, digits, inner dots, hyphens and underscores',
  ],
  [LABEL_QUERY_PATTERN, 'must be labels like env=prod, joined by commas'],
  [CURSOR_PATTERN, 'must be the next_cursor of an earlier answer'],
  [SEQUENCE_PATTERN, 'must be the id of an earlier message, a whole number'],
  [ETAGS_PATTERN, 'must be an ETag in its quotes, or *'],
  [NODE_NAME_PATTERN, 'must be 1 to 64 letters, digits, inner dots, hyphens and underscores'],
  [ARRIVAL_PATTERN, 'must be 1 to 64 letters, digits, hyphens and underscores, a letter or digit first'],
  [SESSION_PATTERN, 'must be the session of an earlier attached message: 16 lower-case hexadecimal digits'],
  [
    GUEST_USER_PATTERN,
    `must be 1 to ${limits.sshUserBytesMax} lower-case letters, digits, hyphens and underscores, no digit first`,
  ],
  [FINGERPRINT_PATTERN, 'must be a fingerprint as in SHA256:… with 43 characters; write + as %2B'],
])

// The validator's own check also takes a leap second (RFC 3339) and the name of a time zone (RFC 9557).
// Date reads neither.
Format.Set('date-time', (text) => Format.IsDateTime(text) && !Number.isNaN(Date.parse(text)))

export const timeSchema = Type.String({ format: 'date-time', examples: ['2030-01-01T12:00:00.000Z'] })

/** RFC 3339 in UTC with milliseconds. */
export const time = (ms: number): string => new Date(ms).toISOString()

/** Lists that have pages. A cursor names its list, so that a cursor of another list is refused. */
export type ListName = 'vms' | 'snapshots' | 'images' | 'events'

/** Returns the cursor that marks the end of a page. It is opaque to the client, because its form may change. */
export const cursorAfter = (list: ListName, id: string): string =>
  Buffer.from(`${list}:${id}`).toString('base64url')

/** Returns the id that a page ended with; undefined if the text is not a cursor of that list. */
export function parseCursor(list: ListName, cursor: string): string | undefined {
  const text = Buffer.from(cursor, 'base64url').toString()
  const prefix = `${list}:`
  if (!text.startsWith(prefix)) return undefined
  const id = text.slice(prefix.length)
  if (list === 'events') return SEQUENCE.test(id) ? id : undefined
  // Snapshots have ids of the form of VMs.
  return list === 'images' ? parseSha256(id) : parseVmId(id)
}

/** Members of every list, beside its items. */
export const nextPageMembers = {
  next_cursor: Type.Optional(
    Type.String({ description: 'Pass it as `cursor` for the next page; absent on the last one.' }),
  ),
}

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

/**
 * Prepares one line of text for the controller. Messages quote programs, servers and the kernel, so secrets and paths
 * of the host are taken out. `kept` are the JSON pointers that the text is about.
 */
export const shownText = (text: string, kept: readonly string[] = []): string =>
  // Scrubbing takes out line breaks and invisible characters. Before that they show where a path begins, as in several
  // lines of a program. They may also split a path, which is whole only afterwards.
  withoutHostPaths(scrub(withoutHostPaths(text, kept)), kept)
