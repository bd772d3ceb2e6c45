import type { ConsoleRequest } from '../../client/console/console-connection.ts'

/** Parses the address of the page: `/ui/console/{id}?mode=ssh&user=…`. A serial console waits for its VM's starts. */
export function requestOf({ pathname, search }: Pick<URL, 'pathname' | 'search'>): ConsoleRequest {
  const vm = decodeURIComponent(pathname.split('/').at(-1) ?? '')
  const query = new URLSearchParams(search)
  if (query.get('mode') !== 'ssh') return { vm, mode: 'tty', follow: true }
  const given = (name: string): string | undefined =>
    // In a query, the + of a pasted fingerprint is read as a blank.
    query.get(name)?.replaceAll(' ', '+') || undefined
  return { vm, mode: 'ssh', user: given('user'), acceptHostKey: given('accept_host_key') }
}
