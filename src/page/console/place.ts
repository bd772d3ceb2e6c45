/** The console that a page shows, parsed from its address. */
export type Place = {
  readonly id: string
  readonly mode: 'tty' | 'ssh'
  /** With `ssh`: parameters of the route, unchanged. */
  readonly ssh: Readonly<Record<string, string>>
}

const SSH_PARAMETERS = ['user', 'accept_host_key']

/** Parses the address of the page: `/ui/console/{id}?mode=ssh&user=…`. */
export function placeOf({ pathname, search }: Pick<URL, 'pathname' | 'search'>): Place {
  const id = decodeURIComponent(pathname.split('/').at(-1) ?? '')
  const query = new URLSearchParams(search)
  if (query.get('mode') !== 'ssh') return { id, mode: 'tty', ssh: {} }
  const ssh = SSH_PARAMETERS.flatMap((name) => {
    const value = query.get(name)
    // In a query, the + of a pasted fingerprint is read as a blank.
    return value === null || value === '' ? [] : [[name, value.replaceAll(' ', '+')] as const]
  })
  return { id, mode: 'ssh', ssh: Object.fromEntries(ssh) }
}

export type Window = { readonly cols: number; readonly rows: number }

/** How far a page has read, across all its connections. */
export type Position = { readonly session: string; readonly cursor: number }

/** Returns path and query of the API's route. */
export function routeOf({ id, mode, ssh }: Place, window: Window, from: Position | undefined): string {
  const tty = { follow: 'true', ...(from && { since: String(from.cursor), session: from.session }) }
  const query = new URLSearchParams({
    mode,
    cols: String(window.cols),
    rows: String(window.rows),
    ...(mode === 'tty' ? tty : ssh),
  })
  return `/v1/vms/${encodeURIComponent(id)}/console?${query}`
}
