const REDACTED = '[redacted]'

/**
 * Characters that show nothing and could split a secret in two so that no pattern below finds it: C0 and C1 controls,
 * zero-width characters, direction marks and line separators.
 */
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]/g

/** User name, password, query and fragment of any URL: which part grants access differs from store to store. */
const URL_SECRETS =
  /\b([a-z][a-z0-9+.-]{1,15}:\/\/)(?:[^\s/?#"'<>\\@]*@)?([^\s?#"'<>\\]*)([?#][^\s"'<>\\]*)?/gi

/**
 * A parameter or header that grants access, also where its URL was cut off or percent-encoded. Only the end of its name is
 * matched: a pattern for what may stand before it looks at a long word again from each of its parts.
 */
const PARAMETER =
  /((?:(?:signature|credential|security-token|(?<![a-z0-9])(?:sig|token|password|passwd|secret|api[_-]?key))(?:=|%3d))|(?:-token|(?<![a-z0-9])cookie):\s*)[^\s&"'<>\\]+/gi

const BEARER = /\b(bearer|authorization:\s*basic)(\s+)[a-z0-9._~+/-]{8,}=*/gi

const PRIVATE_KEY =
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[^"\\]*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=["\\])|$)/g

/**
 * Takes out whatever looks like a secret. The second wall: the first is that secrets are values without a printable
 * form. It is coarse on purpose, since no line of a log needs the query of a URL. The time it takes grows with the length of
 * the text and not faster: others decide what is in it.
 */
export function scrub(text: string): string {
  return text
    .replace(INVISIBLE, '')
    .replace(PRIVATE_KEY, REDACTED)
    .replace(URL_SECRETS, (_, scheme: string, rest: string, tail?: string) =>
      tail === undefined ? `${scheme}${rest}` : `${scheme}${rest}${tail[0]}${REDACTED}`,
    )
    .replace(PARAMETER, `$1${REDACTED}`)
    .replace(BEARER, `$1$2${REDACTED}`)
}

/** Escapes of control characters in JSON text; a pair of backslashes is matched so that its second half is not read as one. */
const JSON_ESCAPE = /\\(?:u00[01][0-9a-f]|[bfnrt]|(.))/gi

/** Members that are never logged, whatever is in them. */
const SECRET_MEMBER =
  /"((?:user_?data|ssh_?authorized_?keys|authorization|password|token|private_?key)\w*)":(?:"(?:[^"\\]|\\.)*"|\[[^\]]*(?:\]|$))/gi

/** {@link scrub} for a finished line of JSON, which stays valid JSON. */
export function scrubLine(line: string): string {
  const unescaped = line
    .trimEnd()
    .replace(JSON_ESCAPE, (escape, other?: string) => (other === undefined ? '' : escape))
  return `${scrub(unescaped.replace(SECRET_MEMBER, `"$1":"${REDACTED}"`))}\n`
}
