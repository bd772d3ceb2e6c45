/*
 * How long each test file took when it last passed, kept in the cache. `./dev try` chooses tests by it, and
 * `./dev test` starts the longest host tests first.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { cachePath } from './paths.ts'

/** In a process of its own a file pays for the start of Node and for every module that it loads. */
export type Isolation = 'alone' | 'together'

/** Milliseconds by test file. */
export type Durations = Readonly<Record<string, number>>

const fileOf = (isolation: Isolation): string => path.join(cachePath('durations'), `tests-${isolation}.json`)

/** Returns what is known; empty on a new machine. */
export function readDurations(isolation: Isolation): Durations {
  const file = fileOf(isolation)
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Durations) : {}
}

/** Keeps new durations beside those of other files. */
export function keepDurations(isolation: Isolation, took: Durations): void {
  if (Object.keys(took).length === 0) return
  const file = fileOf(isolation)
  const aside = `${file}.${process.pid}.new`
  writeFileSync(aside, JSON.stringify({ ...readDurations(isolation), ...took }, undefined, 1))
  renameSync(aside, file)
}
