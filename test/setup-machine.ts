import { X509Certificate } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setup } from '../src/daemon/setup/setup.ts'
import type { TestContext } from 'node:test'

const exampleConfig = readFileSync(new URL('../src/config/config.example.toml', import.meta.url), 'utf8')
/** The time of the machine. */
export const nowMs = Date.UTC(2030, 0, 1)

/** Makes a directory that stands for the whole machine, and runs set-up in it. */
export function machine(t: TestContext, hostname = 'host-1') {
  const root = mkdtempSync(join(tmpdir(), 'setup-'))
  // The configuration takes no other place for it.
  const runDirectory = mkdtempSync('/run/setup-')
  t.after(() => {
    for (const directory of [root, runDirectory]) rmSync(directory, { recursive: true })
  })
  const at = (path: string): string => join(root, path)
  const options = [
    ['--config', at('config.toml')],
    ['--state-directory', at('state')],
    ['--pool-directory', at('state/pool')],
    ['--run-directory', runDirectory],
    ['--tls-directory', at('tls')],
  ].flat()
  const marked: string[] = []
  const run = async (argv: readonly string[], reflink = true) => {
    const out: string[] = []
    const status = await setup(argv, {
      hostname,
      nowMs,
      exampleConfig,
      markPool: async (directory) => {
        marked.push(directory)
        mkdirSync(directory, { recursive: true })
        return { poolId: 'pool-1', reflink }
      },
      print: (text) => out.push(text),
      printError: (text) => out.push(text),
    })
    return { status, text: out.join('\n') }
  }
  const certificate = (name: string): X509Certificate =>
    new X509Certificate(readFileSync(at(`tls/${name}.crt`)))
  return { at, options, marked, run, certificate }
}
