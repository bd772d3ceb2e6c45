import { eventually } from '../../daemon/support/eventually.ts'
import { attached, startConsoleServer } from './console-server.ts'
import { startCtl, writeProfile } from './ctl-stage.ts'
import { FakeTerminal } from './fake-terminal.ts'
import type { TestContext } from 'node:test'
import type { Shell } from '../../../src/ctl/shell.ts'
import type { Pki } from '../../daemon/support/controller-host.ts'
import type { ConsoleServer, Served } from './console-server.ts'
import type { Running } from './ctl-stage.ts'

export type Stage = {
  readonly server: ConsoleServer
  /** Runs the command on the terminal. */
  readonly start: (line: string, terminal: FakeTerminal, shell?: Partial<Shell>) => Running
}

/** Starts a daemon that the test plays, for `vmhostctl console` at a terminal in memory. */
export async function startConsoleStage(t: TestContext, pki: Pki): Promise<Stage> {
  const server = await startConsoleServer(t, pki)
  const profile = writeProfile(t, { pki, url: server.url })
  const start = (line: string, terminal: FakeTerminal, shell: Partial<Shell> = {}): Running => {
    // Hangs up even after a failed test, so that nothing runs on.
    t.after(() => terminal.hangUp())
    const argv = [...line.split(' '), '--profile', profile]
    return startCtl(argv, { shell: { ...shell, openTerminal: () => terminal } })
  }
  return { server, start }
}

export type Attached = Running & { readonly served: Served; readonly terminal: FakeTerminal }

/** Attaches a console of web-1 whose session has begun. */
export async function attach(
  { server, start }: Stage,
  { terminal = new FakeTerminal(), options = '' } = {},
): Promise<Attached> {
  const running = start(`console web-1${options}`, terminal)
  const served = await server.connection(server.served.length)
  served.deliver(attached('s1', 0))
  await eventually(() => terminal.isHeard)
  return { ...running, served, terminal }
}
