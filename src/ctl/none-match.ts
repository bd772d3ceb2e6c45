import type { Context } from './command.ts'

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
