const REDACTED = '[redacted]'

/**
 * Invisible characters that could split a secret so that no pattern below finds it: C0 and C1 controls, zero-width
 * characters, direction marks and line separators.
 */
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]/g

/** User name, password, query and fragment of any URL: each store grants access by another part. */
const URL_SECRETS =
  /\b([a-z][a-z0-9+.-]{1,15}:\/\/)(?:[^\s/?#"'<>\\@]*@)?([^\s?#"'<>\\]*)([?#][^\s"'<>\\]*)?/gi

/**
 * A parameter or header that grants access, even if its URL was cut off or percent-encoded. Only the end of its name is
 * matched. A pattern for the text before it would look at a long word again from each of its parts.
 */
const PARAMETER =
  /((?:(?:signature|credential|security-token|(?<![a-z0-9])(?:sig|token|password|passwd|secret|api[_-]?key))(?:=|%3d))|(?:-token|(?<![a-z0-9])cookie):\s*)[^\s&"'<>\\]+/gi

const BEARER = /\b(bearer|authorization:\s*basic)(\s+)[a-z0-9._~+/-]{8,}=*/gi

const PRIVATE_KEY =
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[^"\\]*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=["\\])|$)/g

/**
 * Removes everything that looks like a secret. It is the second defence; the first one is that secrets have no
 * printable form. It is coarse on purpose, because no log line needs the query of a URL. Its time grows linearly with
 * the length of the text, because others decide what the text holds.
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

/**
 * Escapes of control characters in JSON text. A pair of backslashes is matched, so that its second half is not read as
 * an escape.
 */
const JSON_ESCAPE = /\\(?:u00[01][0-9a-f]|[bfnrt]|(.))/gi

/** Members that are never logged, whatever they hold. */
const SECRET_MEMBER =
  /"((?:user_?data|ssh_?authorized_?keys|authorization|password|token|private_?key)\w*)":(?:"(?:[^"\\]|\\.)*"|\[[^\]]*(?:\]|$))/gi

/** Does the same as {@link scrub} for a finished line of JSON, which stays valid JSON. */
export function scrubLine(line: string): string {
  const unescaped = line
    .trimEnd()
    .replace(JSON_ESCAPE, (escape, other?: string) => (other === undefined ? '' : escape))
  return `${scrub(unescaped.replace(SECRET_MEMBER, `"$1":"${REDACTED}"`))}\n`
}

const HIDDEN = '[path]'

/** Characters that more often end a sentence or a bracket around a path than the path itself. */
const TRAILING = '.,:;!?)]}>'

/**
 * Matches text with a slash, in the order of the alternatives: a URL with a host, a fingerprint of an SSH key, an
 * absolute path in quotation marks (it may hold spaces), and any other absolute path. A prefix length (`::/32`) is not
 * a path. Neither is text after a letter, a digit, `.`, `-`, `+`, `_` or `<`: `application/json`, `</Code>`.
 */
const SLASHED =
  /(\bhttps?:\/\/[^\s/'"`<>][^\s'"`<>]*|\bSHA256:[A-Za-z0-9+/]{43})|(?:(?<=')(\/+[^\s/'][^'\n]*)(?=')|(?<=")(\/+[^\s/"][^"\n]*)(?=")|(?<![\w.+</-])(?!\/\d{1,3}(?![\w/-]))(\/+[^\s/'"`][^\s'"`]*))/g

/** Routes of the API that advice names. */
const OWN_ROUTE = /^\/(?:v1|docs)(?:[/#]|$)/

/**
 * Replaces absolute paths of the host by `[path]` in a text for the controller. `kept` are the JSON pointers that the
 * text is about. The log keeps the paths. Takes time linear in the text.
 */
export function withoutHostPaths(text: string, kept: readonly string[] = []): string {
  return text.replace(SLASHED, (all, harmless?: string, single?: string, double?: string, bare?: string) => {
    if (harmless !== undefined) return all
    const path = single ?? double ?? withoutTrailing(bare ?? '')
    if (OWN_ROUTE.test(path) || kept.includes(path)) return all
    return `${HIDDEN}${all.slice(path.length)}`
  })
}

function withoutTrailing(token: string): string {
  let end = token.length
  while (end > 0 && TRAILING.includes(token.charAt(end - 1))) end -= 1
  return token.slice(0, end)
}
