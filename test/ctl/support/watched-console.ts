import { eventually } from '../../daemon/support/eventually.ts'
import { ConsoleConnection } from '../../../src/client/console/console-connection.ts'
import { wsLinks } from '../../../src/client/ws-links.ts'
import { HeldClock } from '../../fakes/held-clock.ts'
import { attached, startConsoleServer } from './console-server.ts'
import type { TestContext } from 'node:test'
import type {
  ConsoleEvent,
  ConsoleOptions,
  ConsoleRequest,
} from '../../../src/client/console/console-connection.ts'
import type { Pki } from '../../daemon/support/controller-host.ts'

export type Watching = {
  readonly pki: Pki
  readonly url: string
  readonly request?: ConsoleRequest
  readonly options?: ConsoleOptions
}

/** A console whose events are read as they come. */
export type Watched = {
  readonly console: ConsoleConnection
  readonly events: ConsoleEvent[]
  /** All output, joined. */
  output(): string
  kinds(): string[]
  /** Resolves or rejects as the events end. */
  readonly ended: Promise<void>
}

export const TTY = { vm: 'web-1', mode: 'tty', follow: false } as const satisfies ConsoleRequest

/** Watches a console at the daemon that the test plays, as the controller of `pki`. */
export const watcher =
  (pki: () => Pki) =>
  (
    t: TestContext,
    { url }: { readonly url: string },
    request: ConsoleRequest = TTY,
    options: ConsoleOptions = new HeldClock(),
  ): Watched =>
    watch(t, { pki: pki(), url, request, options })

export function watch(
  t: TestContext,
  { pki, url, request = TTY, options = new HeldClock() }: Watching,
): Watched {
  const { authority, controller } = pki
  const connection = { url, ca: authority.certificate, cert: controller.certificate, key: controller.key }
  const console = new ConsoleConnection(wsLinks(connection), request, options)
  const events: ConsoleEvent[] = []
  const ended = (async (): Promise<void> => {
    for await (const event of console.events()) events.push(event)
  })()
  ended.catch(() => {})
  t.after(async () => {
    console.close()
    await ended.catch(() => {})
  })
  const bytes = (): Uint8Array[] => events.flatMap((event) => (event.kind === 'output' ? [event.bytes] : []))
  return {
    ...{ console, events, ended },
    output: () => Buffer.concat(bytes()).toString(),
    kinds: () => events.map(({ kind }) => kind),
  }
}

/** Watches a console, attached at offset 0 of the session `s1`. */
export const attacher = (pki: () => Pki) => async (t: TestContext) => {
  const server = await startConsoleServer(t, pki())
  const clock = new HeldClock()
  const watched = watcher(pki)(t, server, TTY, clock)
  const first = await server.connection(0)
  first.deliver(attached('s1', 0))
  await eventually(() => watched.kinds().includes('attached'))
  return { server, clock, watched, first }
}
