import path from 'node:path'
import { checkout } from '../paths.ts'
import { runChecked } from '../process.ts'

/** Returns the files that differ from a commit, untracked and deleted ones included, relative to the checkout. */
export async function changedSince(commit: string): Promise<string[]> {
  const git = async (...args: string[]): Promise<string[]> =>
    (await runChecked(['git', '-C', checkout, ...args, '-z'])).split('\0').filter(Boolean)
  const [tracked, untracked] = await Promise.all([
    git('diff', '--name-only', '--no-renames', commit),
    git('ls-files', '--others', '--exclude-standard'),
  ])
  return [...tracked, ...untracked].toSorted()
}

/** Returns files that the caller named from where it stands, relative to the checkout. */
export const namedByCaller = (files: readonly string[]): string[] =>
  files.map((file) => path.relative(checkout, path.resolve(file)))
