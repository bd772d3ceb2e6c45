import { run } from './process.ts'

/**
 * Returns the time that everything in a build bears: SOURCE_DATE_EPOCH if it is set, or the time of the commit
 * (reproducible-builds.org, "SOURCE_DATE_EPOCH"); 1970 outside a repository.
 */
export async function sourceDate(folder: string): Promise<Date> {
  const given = process.env['SOURCE_DATE_EPOCH']
  if (given !== undefined) return fromEpoch(given)
  const { code, stdout } = await run(['git', '-C', folder, 'log', '-1', '--format=%ct'])
  return fromEpoch(code === 0 ? stdout.trim() : '0')
}

function fromEpoch(seconds: string): Date {
  if (!/^\d{1,11}$/.test(seconds)) throw new Error(`SOURCE_DATE_EPOCH=${seconds} is not a number of seconds`)
  return new Date(Number(seconds) * 1000)
}

export const epochOf = (date: Date): string => String(date.getTime() / 1000)
