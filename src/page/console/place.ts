/** Which console a page shows, as its address says. */
export type Place = {
  readonly id: string
  readonly mode: 'tty' | 'ssh'
  /** With `ssh`: parameters of the route, as they are. */
  readonly ssh: Readonly<Record<string, string>>
}

const SSH_PARAMETERS = ['user', 'accept_host_key']

/** The address of the page: `/ui/console/{id}?mode=ssh&user=…`. */
export function placeOf({ pathname, search }: Pick<URL, 'pathname' | 'search'>): Place {
  const id = decodeURIComponent(pathname.split('/').at(-1) ?? '')
  const query = new URLSearchParams(search)
  if (query.get('mode') !== 'ssh') return { id, mode: 'tty', ssh: {} }
  const ssh = SSH_PARAMETERS.flatMap((name) => {
    const value = query.get(name)
    // A fingerprint that was pasted as it is: in a query, its + reads as a blank.
    return value === null || value === '' ? [] : [[name, value.replaceAll(' ', '+')] as const]
  })
  return { id, mode: 'ssh', ssh: Object.fromEntries(ssh) }
}

export type Window = { readonly cols: number; readonly rows: number }

/** How far a page has read, over all its connections. */
export type Position = { readonly session: string; readonly cursor: number }

/** Path and query of the API's route. */
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
