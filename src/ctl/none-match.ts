import type { Context } from './command.ts'

/** What an empty list says of the filters that it was asked with; undefined without any. */
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
