/* Finds the tests that a change reaches: through imports, files named in strings, and folders that are read. */
import path from 'node:path'
import { loadedFiles, namedFiles, readSources, SOURCE_FOLDERS } from '../import-graph.ts'

/** A test file, with the number of files on the shortest way from a changed one. */
export type Reached = { readonly file: string; readonly distance: number }

/** For each file the files that load or name it. */
export type Users = ReadonlyMap<string, readonly string[]>

/** Files that a test reads without naming them: their change reaches the test too. */
const READ_BY: readonly { readonly files: RegExp; readonly tests: RegExp; readonly why: string }[] = [
  {
    files: /^test\/plan-cases\/.*\.txt$/,
    tests: /^test\/plan-cases\//,
    why: 'each text file is a list of cases',
  },
  {
    files: /^(src|test|tools|lab|bench)\/.*\.ts$|\.md$|^package-lock\.json$/,
    tests: /^test\/tidy\.test\.ts$/,
    why: 'the rules of the house hold for every file',
  },
  {
    files: /^(lab|packaging|bpf)\//,
    tests: /^test\/(host|two-hosts|browser-on-host|reboot)\//,
    why: 'they run in the lab, with its kernel programs and units',
  },
  {
    files: /^(package(-lock)?\.json|tsconfig\.json|\.ox\w+\.json)$/,
    tests: /./,
    why: 'every file depends on the packages and settings',
  },
]

/** Files that use another one without loading or naming it. */
const USED: readonly { readonly file: string; readonly user: string; readonly why: string }[] = [
  {
    file: 'src/main.ts',
    user: 'lab/inside/shell.ts',
    why: 'it installs the package, which has all of the product',
  },
  {
    file: 'src/ctl-main.ts',
    user: 'lab/inside/shell.ts',
    why: 'it installs the package, which has the client too',
  },
]

/** Reads all sources. Takes about 0.2 s. */
export function readUsers(): Users {
  const users = new Map(USED.map(({ file, user }) => [file, [user]]))
  for (const source of SOURCE_FOLDERS.flatMap(readSources)) {
    for (const file of new Set([...loadedFiles(source), ...namedFiles(source)])) {
      const list = users.get(file)
      if (list === undefined) users.set(file, [source.path])
      else list.push(source.path)
    }
  }
  return users
}

/** Returns each file that a change reaches with its distance; a changed file has distance 0. */
export function distancesFrom(changed: readonly string[], users: Users): Map<string, number> {
  const distances = new Map(changed.map((file) => [file, 0]))
  for (const [file, distance] of distances) {
    // A Map visits what is added while it is walked; the nearest files come first.
    for (const user of users.get(file) ?? []) if (!distances.has(user)) distances.set(user, distance + 1)
  }
  return distances
}

/** Returns the tests that a change reaches, nearest first; a test beside a changed file is as near as its import. */
export function reachedTests(
  changed: readonly string[],
  { users, tests }: { users: Users; tests: readonly string[] },
): Reached[] {
  const distances = distancesFrom(changed, users)
  const rooms = new Set(changed.map((file) => path.dirname(file)))
  const readers = READ_BY.filter(({ files }) => changed.some((file) => files.test(file)))
  return tests
    .flatMap((file): Reached[] => {
      const byImport = distances.get(file)
      if (byImport !== undefined)
        return [{ file, distance: rooms.has(path.dirname(file)) ? Math.min(byImport, 1) : byImport }]
      return readers.some((reader) => reader.tests.test(file)) ? [{ file, distance: 1 }] : []
    })
    .toSorted((a, b) => a.distance - b.distance)
}
