/** Helps commands about several objects: those that act on each named one, and those that list. */
import { exitStatus } from './exit-status.ts'
import { renderTable } from './text.ts'
import type { Context } from './command.ts'
import type { ExitStatus } from './exit-status.ts'
import type { Cell } from './text.ts'

/**
 * Does the same to each named object, one after the other. A refusal of one does not stop the others, but a daemon that
 * cannot be reached does. Returns the worst status. `beganMs` is when the first one began, by the monotonic clock.
 */
export async function eachNamed(
  context: Context,
  act: (id: string, beganMs: number) => Promise<ExitStatus>,
  names: readonly string[] = context.given.operands,
): Promise<ExitStatus> {
  const beganMs = context.shell.monotonicMs()
  let worst: ExitStatus = exitStatus.done
  for (const id of names) {
    const status = await act(id, beganMs).catch((error: unknown) => context.fail(error, id))
    if (status === exitStatus.unreachable) return status
    if (status > worst) worst = status
  }
  return worst
}

type Page<T> = { readonly data: { readonly items: readonly T[]; readonly next_cursor?: string } }

/** Reads all pages of a list. */
export async function allPages<T>(read: (page: { cursor?: string }) => Promise<Page<T>>): Promise<T[]> {
  const items: T[] = []
  let page: { cursor?: string } = {}
  for (;;) {
    const { data } = await read(page)
    items.push(...data.items)
    if (data.next_cursor === undefined) return items
    page = { cursor: data.next_cursor }
  }
}

type Rows = readonly (readonly (string | Cell)[])[]

type List<T> = {
  readonly items: readonly T[]
  readonly head: readonly string[]
  readonly rowsOf: (items: readonly T[]) => Rows | Promise<Rows>
  /** Returns the line for an empty list. */
  readonly none: () => string | Promise<string>
  /** The last column says why: an error, or what is waited for. */
  readonly lastBelow?: boolean
}

/** Shows a list: as a table for people, as it is for programs. */
export async function showList<T>(context: Context, list: List<T>): Promise<ExitStatus> {
  const { items } = list
  const text = context.json ? '' : await renderList(context, list)
  context.print({ items }, () => text)
  return exitStatus.done
}

async function renderList<T>(
  { shell: { stdout: sink }, paint }: Context,
  { items, head, rowsOf, none, lastBelow = false }: List<T>,
): Promise<string> {
  return items.length === 0 ? none() : renderTable(head, await rowsOf(items), { sink, paint, lastBelow })
}

/** Returns the line for an empty list, which names the filters of the request; undefined without filters. */
export function noneMatch(
  what: string,
  { given }: Pick<Context, 'given'>,
  filters: readonly string[],
): string | undefined {
  const used = filters.flatMap((name) =>
    [given.text(name) ?? [], ...given.texts(name)].flat().map((value) => `--${name} ${value}`),
  )
  return used.length === 0 ? undefined : `no ${what} matches ${used.join(' ')}`
}
