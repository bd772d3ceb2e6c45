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
