import path from 'node:path'
import { checkout } from './paths.ts'
import { runAttached } from './process.ts'

/** Runs `./dev fmt [PATH…]`, which formats the sources in place. Returns the exit status. */
export function main(args: readonly string[]): Promise<number> {
  return runAttached([path.join(checkout, 'node_modules/.bin/oxfmt'), ...args], { cwd: checkout })
}
