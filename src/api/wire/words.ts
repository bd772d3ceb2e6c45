import { MAC_ADDRESS_PATTERN, SHA256_PATTERN, VM_ID_PATTERN } from '../../core/vm/ids.ts'

/** Printable ASCII: what a kernel command line is made of. */
export const KERNEL_ARGUMENTS_PATTERN = '^[\\x20-\\x7e]*$'
/** One line of an authorized_keys file (sshd(8)). */
export const SSH_KEY_PATTERN = '^[^\\x00-\\x1f\\x7f]+$'
/** Every string but one with half a surrogate pair, which has no UTF-8 form. */
export const UNICODE_PATTERN = '^\\P{Cs}*$'
export const URL_PATTERN = '^(https?|file)://\\P{Cs}+$'
export const CURSOR_PATTERN = '^[A-Za-z0-9_-]{1,128}$'

/** What a value must be that does not match its pattern. */
export const patternWords: ReadonlyMap<string, string> = new Map([
  [VM_ID_PATTERN, 'must be 1 to 63 lower-case letters, digits and inner hyphens'],
  [SHA256_PATTERN, 'must be a SHA-256 digest: 64 lower-case hexadecimal digits'],
  [MAC_ADDRESS_PATTERN, 'must be a unicast MAC address in lower case, as in 02:00:5e:10:00:01'],
  [KERNEL_ARGUMENTS_PATTERN, 'must be printable ASCII on one line'],
  [SSH_KEY_PATTERN, 'must be one line of an authorized_keys file'],
  [UNICODE_PATTERN, 'must be text that has a UTF-8 form'],
  [URL_PATTERN, 'must be an https:, http: or file: URL'],
  [CURSOR_PATTERN, 'must be the next_cursor of an earlier answer'],
])
