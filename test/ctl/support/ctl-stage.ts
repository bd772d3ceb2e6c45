import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { runCtl } from '../../../src/ctl/run.ts'
import { FakeTerminal } from './fake-terminal.ts'
import { startControllerHost } from '../../daemon/support/controller-host.ts'
import type { TestContext } from 'node:test'
import type { Shell } from '../../../src/ctl/shell.ts'
import type { CertificatePair } from '../../../src/daemon/setup/certificates.ts'
import type { ControllerHost, ControllerHostOptions, Pki } from '../../daemon/support/controller-host.ts'

/** Output of a run, and its exit status. */
export type Ran = { readonly status: number; readonly out: string; readonly err: string }

/** A run that continues; `err` holds its output so far. */
export type Running = { readonly result: Promise<Ran>; readonly printed: () => string }

export type RunOptions = {
  readonly shell?: Partial<Shell>
  /** Makes standard error a terminal of this many columns. */
  readonly terminalColumns?: number
}

/** Runs vmhostctl in this process, as a user without a profile of their own would. */
export function startCtl(argv: readonly string[], options: RunOptions = {}): Running {
  const out: string[] = []
  const err: string[] = []
  const columns = options.terminalColumns ?? 0
  const sink = (lines: string[]) => ({
    write: (text: string) => void lines.push(text),
    isTty: columns > 0,
    columns,
  })
  const shell: Shell = {
    stdout: sink(out),
    stderr: sink(err),
    readStdin: async () => '',
    openTerminal: () => new FakeTerminal(false),
    endWithReader: () => {},
    environment: {},
    home: '/nonexistent',
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    sleep: (ms, signal) => sleep(ms, undefined, { signal }),
    every: () => () => {},
    onInterrupt: () => () => {},
    build: { version: '1.2.3', commit: 'abc' },
    ...options.shell,
  }
  const result = runCtl(argv, shell).then((status) => ({ status, out: out.join(''), err: err.join('') }))
  return { result, printed: () => err.join('') }
}

export const ctl = (argv: readonly string[], options: RunOptions = {}): Promise<Ran> =>
  startCtl(argv, options).result

/** Makes a directory with a profile and the three files it names. */
export function writeProfile(
  t: TestContext,
  { pki, url, pair = pki.controller, ca = pki.authority.certificate }: ProfileFiles,
): string {
  const directory = mkdtempSync(join(tmpdir(), 'profile-'))
  t.after(() => rmSync(directory, { recursive: true }))
  writeFileSync(join(directory, 'ca.crt'), ca)
  writeFileSync(join(directory, 'controller.crt'), pair.certificate)
  writeFileSync(join(directory, 'controller.key'), pair.key)
  const path = join(directory, 'profile.toml')
  const lines = [`url = "${url}"`, 'ca = "ca.crt"', 'cert = "controller.crt"', 'key = "controller.key"']
  writeFileSync(path, `${lines.join('\n')}\n`)
  return path
}

export type ProfileFiles = {
  readonly pki: Pki
  readonly url: string
  readonly pair?: CertificatePair
  readonly ca?: string
}

export type CtlStage = {
  readonly host: ControllerHost
  readonly profile: string
  /** Splits a command line whose words contain no spaces. */
  run(line: string, options?: RunOptions): Promise<Ran>
  start(line: string, options?: RunOptions): Running
}

/** Starts the API on loopback over real mutual TLS, and writes a profile for it. */
export async function startCtlStage(
  t: TestContext,
  pki: Pki,
  stage: Pick<ControllerHostOptions, 'userIds' | 'settings'> = {},
): Promise<CtlStage> {
  const host = await startControllerHost(t, pki, stage)
  const profile = writeProfile(t, { pki, url: `https://127.0.0.1:${host.port}` })
  const argv = (line: string): string[] => [...line.split(' ').filter(Boolean), '--profile', profile]
  return {
    host,
    profile,
    run: (line, options) => ctl(argv(line), options),
    start: (line, options) => startCtl(argv(line), options),
  }
}
